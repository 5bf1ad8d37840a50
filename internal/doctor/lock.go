// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// maxDriftShown bounds the findings about tools that differ from the catalog lock.
const maxDriftShown = 20

// lock says which tools differ from the catalog lock. Where they are refused, that is a
// failure: callers lack them.
func (d *doctor) lock(cat *catalog.Catalog) {
	drift, isLocked := cat.Drift()
	switch {
	case !isLocked:
		return
	case drift.IsNone():
		d.ok("the tools match the catalog lock %s", d.cfg.GetCatalog().GetLockFile())
		return
	}
	var lines []string
	for _, name := range drift.Added {
		lines = append(lines, "tool "+name+" is not in the lock")
	}
	for _, c := range drift.Changed {
		lines = append(lines, fmt.Sprintf("tool %s differs from the lock: %s", c.Name, strings.Join(c.Members, ", ")))
	}
	unapproved := len(lines)
	for _, name := range drift.Removed {
		lines = append(lines, "tool "+name+" of the lock does not exist")
	}
	refuses := settings.RefusesDrift(d.cfg)
	for i, line := range lines {
		if i == maxDriftShown {
			d.warn("%d more tools differ from the catalog lock", len(lines)-i)
			break
		}
		if refuses && i < unapproved {
			line += "; it is left out"
		}
		d.warn("%s", line)
	}
	const fix = "review the changes with `sidecar lock check`, then run `sidecar lock update`"
	if refuses && unapproved > 0 {
		d.fail(fix, "tools that the catalog lock refuses: %d", unapproved)
		return
	}
	d.add(Finding{Level: levelWarn, Text: "the tools differ from the catalog lock: " + drift.String(), Fix: fix})
}
