// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// Catalog is an immutable snapshot of the set of tools. Callers must not modify anything that it returns.
// It is safe for concurrent use.
type Catalog struct {
	own          *lists           // all but registered tools
	byName       map[string]*Tool // the same
	growth       *growth          // registered tools; nil where there are none
	derived      map[string]*Tool // by procedure, hidden ones too, without registered ones
	files        protodesc.Resolver
	paths        []string
	types        *Types
	warnings     []source.Warning
	description  *outriggerv1.ServerDescription
	resources    *resource.Set
	digests      digests
	fingerprint  string
	drift        *lock.Drift // from the lock; nil without one
	compact      *compacted
	reserved     bool // the names of the compact form
	declaredOnly bool // BuildOptions.DeclaredOnly
	listed       ListForm
	isStrict     bool // the profile of its schemas
}

// compacted is the compact form of a catalog, made when it is first asked for.
type compacted struct {
	once    sync.Once
	catalog *Catalog
	err     error

	// measured guards limit, which a list was compared with last, and isLarger, the outcome.
	measured          sync.Mutex
	limit             int
	isKnown, isLarger bool
}

// Service is an RPC service with at least one tool. Native tools belong to no service.
type Service struct {
	// Name is the full name of the service.
	Name string
	// Source is the name of the source that provides the service.
	Source     string
	Descriptor protoreflect.ServiceDescriptor
	// Tools are the tools of the service, hidden ones included, sorted by name.
	Tools []*Tool

	about serviceAbout
}

// serviceAbout is what a service says of itself.
type serviceAbout struct{ text, title, version string }

// Summary returns the first sentence of what the service says of itself, with its full stop; empty if there is none.
func (s Service) Summary() string {
	sentence := firstSentence(s.about.text)
	if sentence == "" || strings.ContainsAny(sentence[len(sentence)-1:], ".!?") {
		return sentence
	}
	return sentence + "."
}

// Tools returns the tools visible to callers, sorted by canonical name.
func (c *Catalog) Tools() []*Tool { return c.lists().visible }

// count is the number of tools that callers may see.
func (c *Catalog) count() int { return len(c.own.visible) + c.growth.count() }

func (c *Catalog) lists() *lists {
	if c.growth == nil {
		return c.own
	}
	return c.growth.lists()
}

// All returns all tools for operators, hidden ones included, sorted by canonical name.
func (c *Catalog) All() []*Tool { return c.lists().all }

// Lookup finds a tool by its canonical name, its MCP name, or either form of its alias. It does not find hidden tools.
func (c *Catalog) Lookup(name string) (*Tool, bool) {
	if t, ok := c.byName[name]; ok {
		return t, true
	}
	return c.growth.lookup(name)
}

// ByProcedure finds the tool of an RPC by its path, "/pkg.Service/Method". It finds neither hidden nor native tools.
func (c *Catalog) ByProcedure(procedure string) (*Tool, bool) {
	if t := c.derived[procedure]; t != nil && (!t.Hidden || t.isTyped) {
		return t, true
	}
	return nil, false
}

// reserves says why a tool cannot have its names; empty if it can. A catalog that has a compact form keeps three names for it.
func (c *Catalog) reserves(t *Tool) string {
	if !c.reserved {
		return ""
	}
	return reservedName(t.names())
}

// Services returns the services that tools come from, sorted by name.
func (c *Catalog) Services() []Service { return c.lists().services }

// Description returns the native backend's description of itself, or nil if there is none. Do not modify it.
func (c *Catalog) Description() *outriggerv1.ServerDescription { return c.description }

// Resources returns the resources that plain RPCs provide; never nil. The method of a hidden tool may be among them.
func (c *Catalog) Resources() *resource.Set { return c.resources }

// Files returns a resolver that finds descriptors by path and name, as server reflection needs it.
func (c *Catalog) Files() protodesc.Resolver { return c.files }

// Paths returns the paths of all files in Files, sorted.
func (c *Catalog) Paths() []string { return c.paths }

// Types returns a resolver for messages and extensions, as Any needs it.
func (c *Catalog) Types() *Types { return c.types }

// Warnings returns the warnings for operators, sorted by subject.
func (c *Catalog) Warnings() []source.Warning { return c.warnings }

// Fingerprint returns the SHA-256 of everything visible to callers, as 64 lowercase hex digits. It does not depend on
// the order in which descriptors arrived.
func (c *Catalog) Fingerprint() string { return c.fingerprint }

// newCatalog freezes derived tools, which those that are not hidden are given by name too. They collide with none of each other, except that hidden ones may. Typed ones are
// found by their procedures alone.
func newCatalog(tools []*Tool, byName map[string]*Tool, typed []*Tool, linked *linker, types *Types, warnings []source.Warning) (*Catalog, error) {
	c := &Catalog{
		own: &lists{all: tools}, byName: byName, derived: make(map[string]*Tool, len(tools)+len(typed)),
		files: linked.registry, types: types, paths: linked.paths(), warnings: warnings, compact: &compacted{},
	}
	slices.SortFunc(tools, inOrder)
	services := map[string]*Service{}
	addRPC := func(t *Tool) {
		s := services[t.Method.Service]
		if s == nil {
			parent, _ := t.Method.Descriptor.Parent().(protoreflect.ServiceDescriptor)
			s = &Service{Name: t.Method.Service, Source: t.Method.Source, Descriptor: parent}
			services[s.Name] = s
		}
		s.Tools = append(s.Tools, t)
		c.derived[t.Method.Procedure] = t
	}
	for _, t := range typed {
		t.isTyped = true
		addRPC(t)
	}
	named := make([]*Tool, 0, len(tools))
	c.own.visible = make([]*Tool, 0, len(tools))
	for _, t := range tools {
		if !t.Native {
			addRPC(t)
		}
		if t.Hidden {
			continue
		}
		if t.sealed == (source.Digest{}) {
			if err := t.seal(); err != nil {
				return nil, err
			}
		}
		named = append(named, t)
		c.own.visible = append(c.own.visible, t)
	}
	addAliases(c.byName, named)
	for _, name := range shown.SortedKeys(services) {
		c.own.services = append(c.own.services, *services[name])
	}
	slices.SortStableFunc(c.warnings, bySubject)
	c.digests = digests{}.with(c.own.visible)
	c.fingerprint = c.digests.sum()
	return c, nil
}

// with is the catalog with registered tools added, which are sorted by name and collide with none that is there or with
// each other, and warnings. One more tool costs some microseconds, whatever the number of those that are there: nothing is
// derived, listed or compiled again.
func (c *Catalog) with(tools []*Tool, warnings []source.Warning) *Catalog {
	out := *c
	out.growth, out.compact = c.growth.with(tools, c), &compacted{}
	if len(warnings) > 0 {
		out.warnings = slices.Concat(c.warnings, warnings)
		slices.SortStableFunc(out.warnings, bySubject)
	}
	out.digests = c.digests.with(tools)
	out.fingerprint = out.digests.sum()
	return &out
}

func bySubject(a, b source.Warning) int {
	return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Text, b.Text))
}

// addAliases lets the tools be found by their aliases. One that is a name of another tool, or that two tools would have,
// is dropped: what it means must not depend on what else there is.
func addAliases(byName map[string]*Tool, tools []*Tool) {
	claims := map[string]int{}
	for _, t := range tools {
		if t.Alias != "" {
			claims[MCPName(t.Alias)]++
		}
	}
	if len(claims) == 0 {
		return
	}
	for _, t := range tools {
		if t.Alias == "" {
			continue
		}
		mcp := MCPName(t.Alias)
		if byName[t.Alias] != nil || byName[mcp] != nil || claims[mcp] > 1 {
			t.Alias = ""
		}
	}
	for _, t := range tools {
		for _, name := range t.names() {
			byName[name] = t
		}
	}
}
