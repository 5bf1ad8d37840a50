// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
)

// lists are the lists of tools that a catalog gives away, each by name. Immutable.
type lists struct {
	visible, all []*Tool
	services     []Service
}

// with is the lists with visible tools added, which are sorted by name and stand among those of their services too.
func (l *lists) with(added []*Tool) *lists {
	out := &lists{visible: insertTools(l.visible, added), all: insertTools(l.all, added), services: slices.Clone(l.services)}
	byService := map[string][]*Tool{}
	for _, t := range added {
		byService[t.Method.Service] = append(byService[t.Method.Service], t)
	}
	for i := range out.services {
		if s := &out.services[i]; len(byService[s.Name]) > 0 {
			s.Tools = insertTools(s.Tools, byService[s.Name])
		}
	}
	return out
}

// insertTools is a copy of a list with others added. Both are sorted by name.
func insertTools(sorted, added []*Tool) []*Tool {
	out := make([]*Tool, 0, len(sorted)+len(added))
	for _, t := range added {
		at, _ := slices.BinarySearchFunc(sorted, t, inOrder)
		out = append(append(out, sorted[:at]...), t)
		sorted = sorted[at:]
	}
	return append(out, sorted...)
}

// growth is what registrations added to the derived tools of a catalog. Immutable. It is made so that one more tool
// copies little of what is there, whatever the number of tools: a registration is to take microseconds.
type growth struct {
	base  *Catalog // what it was before the first registration
	tools []*Tool  // by name
	names names
	// lists are those of derived and registered tools together, made when somebody first asks for one.
	lists func() *lists
}

// with is the growth with tools added to it, which are sorted by name, in a catalog that has grown that far.
func (g *growth) with(added []*Tool, c *Catalog) *growth {
	if g == nil {
		g = &growth{base: c, names: names{seed: maphash.MakeSeed()}}
	}
	derived, tools := g.base.own, insertTools(g.tools, added)
	return &growth{
		base: g.base, tools: tools, names: g.names.with(added),
		lists: sync.OnceValue(func() *lists { return derived.with(tools) }),
	}
}

// ungrown is the catalog without registered tools and without warnings about them.
func (c *Catalog) ungrown() *Catalog {
	if c.growth == nil {
		return c
	}
	return c.growth.base
}

// count is how many tools there are.
func (g *growth) count() int {
	if g == nil {
		return 0
	}
	return len(g.tools)
}

// lookup finds a tool by its canonical or its MCP name.
func (g *growth) lookup(name string) (*Tool, bool) {
	if g == nil {
		return nil, false
	}
	return g.names.lookup(name)
}

// nameParts is how many parts names have: with the most tools that can be registered, of two names each, one part holds
// about thirty.
const nameParts = 64

// names finds tools by name. A name that is added leaves all parts but its own as they are.
type names struct {
	seed  maphash.Seed
	parts [nameParts][]namedTool // each by name
}

type namedTool struct {
	name string
	tool *Tool
}

func byItsName(n namedTool, name string) int { return cmp.Compare(n.name, name) }

// part is the one for a name.
func (n *names) part(name string) *[]namedTool {
	return &n.parts[maphash.String(n.seed, name)%nameParts]
}

func (n *names) lookup(name string) (*Tool, bool) {
	part := *n.part(name)
	at, found := slices.BinarySearchFunc(part, name, byItsName)
	if !found {
		return nil, false
	}
	return part[at].tool, true
}

// with is the names with both forms of those of tools added.
func (n *names) with(tools []*Tool) names {
	out := *n
	for _, t := range tools {
		for _, name := range [...]string{t.Name, t.MCPName} {
			part := out.part(name)
			at, found := slices.BinarySearchFunc(*part, name, byItsName)
			if found {
				continue // both forms are the same
			}
			*part = slices.Insert(slices.Clip(*part), at, namedTool{name, t})
		}
	}
	return out
}
