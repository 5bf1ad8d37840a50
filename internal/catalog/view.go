// SPDX-License-Identifier: Apache-2.0

package catalog

import "github.com/outrigger-mcp/outrigger/internal/catalog/resource"

// Only returns a view of the catalog for a caller who may use only some of the tools. The other tools are neither listed
// nor found by name, by procedure or as resources, and the fingerprints cover only what is left. Descriptors stay, because
// the messages of one method come from files shared with others. Nothing is derived or compiled again.
func (c *Catalog) Only(may func(t *Tool) bool) *Catalog {
	out := *c
	from := c.lists()
	out.own = &lists{visible: keep(from.visible, may), all: keep(from.all, may)}
	for _, s := range from.services {
		if s.Tools = keep(s.Tools, may); len(s.Tools) > 0 {
			out.own.services = append(out.own.services, s)
		}
	}
	out.growth, out.compact = nil, &compacted{} // its tools are among those of lists
	out.byName = make(map[string]*Tool, 2*len(out.own.visible))
	for _, t := range out.own.all {
		if t.Hidden {
			continue
		}
		for _, name := range t.names() {
			out.byName[name] = t
		}
	}
	out.derived = filtered(c.derived, may)
	out.resources = c.resources.Only(func(m *resource.Method) bool { return may(c.ResourceTool(m)) })
	out.digests = digests{}.with(out.own.visible)
	out.fingerprint = out.digests.sum()
	return &out
}

func keep(tools []*Tool, may func(t *Tool) bool) []*Tool {
	var out []*Tool
	for _, t := range tools {
		if may(t) {
			out = append(out, t)
		}
	}
	return out
}

func filtered(tools map[string]*Tool, may func(t *Tool) bool) map[string]*Tool {
	out := make(map[string]*Tool, len(tools))
	for name, t := range tools {
		if may(t) {
			out[name] = t
		}
	}
	return out
}
