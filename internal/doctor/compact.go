// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// compact says which tools are listed, where that is not all of them in any case.
func (d *doctor) compact(cat *catalog.Catalog) {
	o := settings.Compact(d.cfg)
	tools := len(cat.Tools())
	switch {
	case !o.IsOffered():
	case o.Mode == compact.Always:
		d.ok("the list is compact: three tools stand for %d (--catalog-mode)", tools)
	case cat.ListExceeds(o.AboveBytes):
		d.ok("the list is compact: three tools stand for %d, whose list is larger than %d bytes (--compact-above-bytes)", tools, o.AboveBytes)
	default:
		d.ok("the list has all %d tools: it is not larger than %d bytes (--compact-above-bytes)", tools, o.AboveBytes)
	}
}

// maxOutsideShown bounds the files that a finding names.
const maxOutsideShown = 5

// skills says what the folders of skills have. Their faults are those of the configuration.
func (d *doctor) skills() {
	source, err := settings.Skills(d.cfg)
	switch {
	case err != nil:
		d.fail("correct the folders of skills", "skills: %v", err)
		return
	case source == nil:
		return
	}
	set := source.Current()
	d.ok("%d skills with %d files", len(set.Skills()), len(set.Resources()))
	if n := len(set.Outside); n > 0 {
		shown := strings.Join(set.Outside[:min(n, maxOutsideShown)], ", ")
		if n > maxOutsideShown {
			shown += ", ..."
		}
		d.warn("files outside every skill, which are not served: %d (%s)", n, shown)
	}
}
