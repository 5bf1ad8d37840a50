// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// maxGrantLines bounds the lines that one change of the catalog or of the file of
// callers may write about globs: a catalog that has lost a service may leave
// thousands of them without a tool.
const maxGrantLines = 20

// grants are the globs in the callers file that match no tool of the catalog.
type grants struct {
	mu      sync.Mutex
	without []identity.Unmatched
}

// CheckGrants logs a warning for each glob of the callers file that matches no
// tool, once until a tool matches. That is not an error: the tool may be added
// later.
func (f *Front) CheckGrants(now *catalog.Catalog) { f.authn.checkGrants(now) }

func (d *authenticator) checkGrants(now *catalog.Catalog) {
	if d.book == nil {
		return
	}
	var names []string
	for _, tool := range now.Tools() {
		names = append(names, tool.Name)
		if tool.Alias != "" {
			names = append(names, tool.Alias)
		}
	}
	g := &d.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.without
	g.without = d.book.Unmatched(names)
	lines := 0
	for _, u := range g.without {
		if slices.Contains(before, u) {
			continue
		}
		if lines++; lines <= maxGrantLines {
			d.opts.Log.Warn("glob in the callers file matches no tool; `sidecar tools` lists the names",
				zap.String(logkey.Caller, u.Caller), zap.String("pattern", u.Pattern))
		}
	}
	if lines > maxGrantLines {
		d.opts.Log.Warn("more globs in the callers file match no tool", zap.Int("more", lines-maxGrantLines))
	}
}

// Checks returns the same for /readyz?verbose.
func (f *Front) Checks() []admin.Check {
	d := f.authn
	if d.book == nil {
		return nil
	}
	g := &d.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	check := admin.Check{Name: "callers", OK: len(g.without) == 0, Info: true, Detail: fmt.Sprintf("%d callers", d.book.Len())}
	for i, u := range g.without {
		if i == maxGrantLines {
			check.Detail += fmt.Sprintf("; and %d more", len(g.without)-i)
			break
		}
		check.Detail += fmt.Sprintf("; %s: tools %q match none", u.Caller, strings.ToValidUTF8(u.Pattern, "?"))
	}
	return []admin.Check{check}
}
