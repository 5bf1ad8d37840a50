// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// unmatched is the line about a glob of a caller.
const unmatched = "glob in the callers file matches no tool; `sidecar tools` lists the names"

// TestGrantsOfNoTool warns once of each glob, and shows all of them as long as they
// match nothing.
func TestGrantsOfNoTool(t *testing.T) {
	t.Parallel()
	now := mcptest.Memory(t).Current()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "callers.yaml")
		write(t, path, callers(map[string]string{"ann": "lab.*", "bob": "labs.*"}))
		d := open(t, withTokens(path), nil)
		if got := d.Checks(); len(got) != 1 || got[0] != (admin.Check{Name: "callers", OK: true, Info: true, Detail: "2 callers"}) {
			t.Errorf("before there are tools: %+v", got)
		}
		d.now = now
		for range 2 {
			d.CheckGrants(now)
		}
		lines := d.log.FilterMessage(unmatched).All()
		if len(lines) != 1 || lines[0].ContextMap()["outrigger.caller"] != "bob" || lines[0].ContextMap()["pattern"] != "labs.*" {
			t.Errorf("the log has %v", lines)
		}
		if got := d.Checks(); len(got) != 1 || got[0].OK || got[0].Detail != `2 callers; bob: tools "labs.*" match none` {
			t.Errorf("got %+v", got)
		}
		write(t, path, callers(map[string]string{"ann": "lab.*", "bob": "fleet.*"}))
		d.passes() // it is checked with the file, too
		if got := d.Checks(); len(got) != 1 || !got[0].OK || got[0].Detail != "2 callers" {
			t.Errorf("after the file changed: %+v", got)
		}
		write(t, path, callers(map[string]string{"bob": "labs.*"}))
		d.passes()
		if n := d.log.FilterMessage(unmatched).Len(); n != 2 {
			t.Errorf("a glob that is wrong again has %d lines, want 2", n)
		}
	})
}

// TestManyGrantsOfNoTool has a bound for lines, and one for what is shown.
func TestManyGrantsOfNoTool(t *testing.T) {
	t.Parallel()
	var globs []string
	for i := range 25 {
		globs = append(globs, fmt.Sprintf("gone%d.*", i))
	}
	path := filepath.Join(t.TempDir(), "callers.yaml")
	write(t, path, callers(map[string]string{"ann": strings.Join(globs, `", "`)}))
	d := open(t, withTokens(path), nil)
	d.CheckGrants(mcptest.Memory(t).Current())
	if n := d.log.FilterMessage(unmatched).Len(); n != 20 {
		t.Errorf("%d lines, want 20", n)
	}
	if more := d.log.FilterMessage("more globs in the callers file match no tool").All(); len(more) != 1 || more[0].ContextMap()["more"] != int64(5) {
		t.Errorf("the rest: %v", more)
	}
	if got := d.Checks()[0].Detail; strings.Count(got, "match none") != 20 || !strings.HasSuffix(got, "; and 5 more") {
		t.Errorf("shown is %s", got)
	}
}

// TestNoCallersFile has no grants to check.
func TestNoCallersFile(t *testing.T) {
	t.Parallel()
	d := open(t, config.Defaults(config.Serve), nil)
	d.CheckGrants(mcptest.Memory(t).Current())
	if got := d.Checks(); got != nil {
		t.Error(got)
	}
}
