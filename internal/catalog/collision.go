// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
)

// ErrEmpty is wrapped by the error of a build that leaves no tools.
var ErrEmpty = errors.New("there are no tools")

// ErrIncomplete is wrapped, beside ErrEmpty, by the error of a build that leaves no tools because descriptors do not link.
var ErrIncomplete = errors.New("the descriptors of the services are incomplete")

// Collision is a name shared by several methods.
type Collision struct {
	// Name is the shared name. Form is its form: "canonical" or "MCP".
	Name, Form string
	// Methods are the methods that share the name, as "pkg.Service/Method", sorted. A native tool is "service/name".
	Methods []string
}

// String names the methods and the option that tells them apart.
func (c Collision) String() string {
	return fmt.Sprintf("%s name %q belongs to %s; set (outrigger.v1.tool).name on one of them, name it in the overlay, "+
		"or omit it with --exclude %s", c.Form, c.Name, strings.Join(c.Methods, " and "), c.Methods[len(c.Methods)-1])
}

// Problem is one problem to fix before a catalog can be built.
type Problem struct {
	// Subject is a method as "pkg.Service/Method", or an overlay entry.
	Subject string
	// Text describes the problem.
	Text string
}

// String returns the subject and the text.
func (p Problem) String() string { return p.Subject + ": " + p.Text }

// BuildError lists everything that prevents a catalog from being built. Retrying does not help: a service, an option or
// a flag has to change.
type BuildError struct {
	Collisions []Collision
	Problems   []Problem
	// Tools are the tools built so far, colliding ones included, sorted by name. They are for operators only.
	Tools []*Tool
}

// shownFaults is how many faults the error's text spells out. BuildError holds all of them.
const shownFaults = 10

// Error lists the problems, the first ten in full.
func (e *BuildError) Error() string {
	var faults []string
	for _, p := range e.Problems {
		faults = append(faults, p.String())
	}
	for _, c := range e.Collisions {
		faults = append(faults, c.String())
	}
	if more := len(faults) - shownFaults; more > 0 {
		faults = append(faults[:shownFaults], fmt.Sprintf("and %d more", more))
	}
	return "the catalog cannot be built: " + strings.Join(faults, "; ")
}

// omitTwins leaves out methods of one service that differ in case alone, among the tools from an index on: they have one
// derived name, and a caller must not reach one where it means the other. Other collisions are for an operator to settle,
// but such a service is often not the operator's, and the fault concerns those methods alone.
func (b *builder) omitTwins(from int) {
	twins := map[string][]string{} // methods by their names in lower case
	key := func(t *Tool) string {
		if t.Hidden || t.isNamed {
			return ""
		}
		return strings.ToLower(string(t.Method.Descriptor.Name()))
	}
	for _, t := range b.tools[from:] {
		twins[key(t)] = append(twins[key(t)], t.Subject())
	}
	isTwin := func(t *Tool) bool { return key(t) != "" && len(twins[key(t)]) > 1 }
	for _, t := range b.tools[from:] {
		if !isTwin(t) {
			continue
		}
		same := twins[key(t)]
		b.warn(t.Subject(), fmt.Sprintf("method omitted: %s differ in case alone and would all be %s; set (outrigger.v1.tool).name on one of them, "+
			"name it in the overlay, or omit it with --exclude %s", strings.Join(same, " and "), t.Name, same[len(same)-1]))
		b.resources = slices.DeleteFunc(b.resources, func(m *resource.Method) bool { return m.Procedure() == t.Method.Procedure })
	}
	b.tools = append(b.tools[:from], slices.DeleteFunc(b.tools[from:], isTwin)...)
}

// findCollisions lists the names that more than one tool has, canonical ones first. Tools that collide canonically do so
// in MCP's form as well, which is not said twice. A native tool's name in MCP may be another one's canonical name. Hidden
// tools take no name from anyone. Where there are none, the tools by their names come instead.
func findCollisions(tools []*Tool) ([]Collision, map[string]*Tool) {
	taken := make(map[string]*Tool, 2*len(tools))
	for _, t := range tools {
		if t.Hidden {
			continue
		}
		for _, name := range [...]string{t.Name, t.MCPName} {
			if other := taken[name]; other != nil && other != t {
				return allCollisions(tools), nil
			}
			taken[name] = t
		}
	}
	return nil, taken
}

// allCollisions sorts out who collides, where anyone does.
func allCollisions(tools []*Tool) []Collision {
	byName := map[string][]string{}
	claims := map[string]map[string][]string{} // name in either form, to canonical names, to methods
	for _, t := range tools {
		if t.Hidden {
			continue
		}
		byName[t.Name] = append(byName[t.Name], t.Subject())
		for _, name := range slices.Compact([]string{t.Name, t.MCPName}) {
			if claims[name] == nil {
				claims[name] = map[string][]string{}
			}
			claims[name][t.Name] = append(claims[name][t.Name], t.Subject())
		}
	}
	var out []Collision
	for _, name := range shown.SortedKeys(byName) {
		if methods := byName[name]; len(methods) > 1 {
			slices.Sort(methods)
			out = append(out, Collision{name, "canonical", methods})
		}
	}
	for _, name := range shown.SortedKeys(claims) {
		if len(claims[name]) > 1 {
			methods := slices.Concat(slices.Collect(maps.Values(claims[name]))...)
			slices.Sort(methods)
			out = append(out, Collision{name, "MCP", methods})
		}
	}
	return out
}
