// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// maxDriftShown bounds the tools that one line names of each kind: a catalog may have
// changed as a whole.
const maxDriftShown = 20

// drifted logs how the tools differ from the catalog lock. It is called once for each
// difference.
func (a *App) drifted(d lock.Drift) {
	if d.IsNone() {
		a.log.Info("catalog matches its lock")
		return
	}
	changed := make([]string, len(d.Changed))
	for i, c := range d.Changed {
		changed[i] = c.String()
	}
	a.log.Warn("catalog differs from its lock", zap.Stringer("drift", d), zap.Strings("tools_added", firstTools(d.Added)),
		zap.Strings("tools_removed", firstTools(d.Removed)), zap.Strings("tools_changed", firstTools(changed)))
}

// firstTools shortens a list of tools, and says how many it leaves out.
func firstTools(tools []string) []string {
	if len(tools) <= maxDriftShown {
		return tools
	}
	return append(tools[:maxDriftShown:maxDriftShown], fmt.Sprintf("and %d more", len(tools)-maxDriftShown))
}

// lockChecks say whether the tools match the catalog lock, for /readyz?verbose.
func (a *App) lockChecks() []admin.Check {
	now := a.live.Current()
	if now == nil {
		return nil
	}
	drift, isLocked := now.Drift()
	if !isLocked {
		return nil
	}
	check := admin.Check{Name: "catalog lock", OK: drift.IsNone(), Info: true, Detail: "the tools match"}
	if !drift.IsNone() {
		check.Detail = drift.String()
	}
	return []admin.Check{check}
}
