// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Catalog is the set of tools at one moment. It never changes, and neither does what it returns; callers must not
// change it either. Safe for concurrent use.
type Catalog struct {
	tools       []*Tool          // visible, by name
	all         []*Tool          // hidden ones too, by name, then procedure
	byName      map[string]*Tool // derived ones
	registered  map[string]*Tool // registered ones, apart, so that one more does not copy the names of all
	byProcedure map[string]*Tool
	derived     map[string]*Tool // by procedure, hidden ones too, without registered ones
	services    []Service
	files       protodesc.Resolver
	paths       []string
	types       *Types
	warnings    []Warning
	fingerprint string
}

// Service is an RPC service that at least one tool comes from.
type Service struct {
	// Name is its full name.
	Name string
	// Source is the name of the source that offers it.
	Source     string
	Descriptor protoreflect.ServiceDescriptor
	// Tools are its tools, hidden ones too, by name.
	Tools []*Tool
}

// Tools are the tools that callers may see, sorted by canonical name.
func (c *Catalog) Tools() []*Tool { return c.tools }

// All are all tools, hidden ones too, sorted by canonical name: for an operator's eyes.
func (c *Catalog) All() []*Tool { return c.all }

// Lookup finds a tool by its canonical or its MCP name. A hidden tool is not found.
func (c *Catalog) Lookup(name string) (*Tool, bool) {
	t, ok := c.byName[name]
	if !ok {
		t, ok = c.registered[name]
	}
	return t, ok
}

// ByProcedure finds the tool of an RPC by its path, "/pkg.Service/Method". A hidden tool is not found.
func (c *Catalog) ByProcedure(procedure string) (*Tool, bool) {
	t, ok := c.byProcedure[procedure]
	return t, ok
}

// Services are the services that tools come from, sorted by name.
func (c *Catalog) Services() []Service { return c.services }

// Files finds descriptors by path and name, as server reflection needs it.
func (c *Catalog) Files() protodesc.Resolver { return c.files }

// Paths are the paths of all files that Files finds, sorted.
func (c *Catalog) Paths() []string { return c.paths }

// Types finds messages and extensions, as Any needs it.
func (c *Catalog) Types() *Types { return c.types }

// Warnings are what an operator should know, sorted by subject.
func (c *Catalog) Warnings() []Warning { return c.warnings }

// Fingerprint is the SHA-256 over all that callers can see, 64 lower-case hex digits. It does not depend on the order in
// which descriptors arrived.
func (c *Catalog) Fingerprint() string { return c.fingerprint }

// newCatalog freezes derived tools. They collide with none of each other, except that hidden ones may.
func newCatalog(tools []*Tool, linked *linker, types *Types, warnings []Warning) (*Catalog, error) {
	c := &Catalog{
		all: tools, byName: map[string]*Tool{}, byProcedure: map[string]*Tool{}, derived: map[string]*Tool{},
		files: linked.registry, types: types, paths: linked.paths(), warnings: warnings,
	}
	slices.SortFunc(c.all, byName)
	services := map[string]*Service{}
	for _, t := range c.all {
		s := services[t.Method.Service]
		if s == nil {
			parent, _ := t.Method.Descriptor.Parent().(protoreflect.ServiceDescriptor)
			s = &Service{Name: t.Method.Service, Source: t.Method.Source, Descriptor: parent}
			services[s.Name] = s
		}
		s.Tools = append(s.Tools, t)
		c.derived[t.Method.Procedure] = t
		if t.Hidden {
			continue
		}
		if err := t.seal(); err != nil {
			return nil, err
		}
		c.tools = append(c.tools, t)
		c.byName[t.Name], c.byName[t.MCPName] = t, t
		c.byProcedure[t.Method.Procedure] = t
	}
	for _, name := range sortedKeys(services) {
		c.services = append(c.services, *services[name])
	}
	slices.SortStableFunc(c.warnings, bySubject)
	c.fingerprint = catalogFingerprint(c.tools)
	return c, nil
}

// with is the catalog with registered tools added, which collide with none that is there or with each other, and
// warnings. It costs some microseconds for a thousand tools: nothing is derived or compiled again.
func (c *Catalog) with(tools []*Tool, warnings []Warning) *Catalog {
	out := *c
	out.all = insertTools(c.all, tools)
	out.tools = insertTools(c.tools, tools)
	out.registered = make(map[string]*Tool, len(c.registered)+2*len(tools))
	maps.Copy(out.registered, c.registered)
	out.services = slices.Clone(c.services)
	for _, t := range tools {
		out.registered[t.Name], out.registered[t.MCPName] = t, t
		for i := range out.services {
			if s := &out.services[i]; s.Name == t.Method.Service {
				s.Tools = insertTools(s.Tools, []*Tool{t})
			}
		}
	}
	if len(warnings) > 0 {
		out.warnings = slices.Concat(c.warnings, warnings)
		slices.SortStableFunc(out.warnings, bySubject)
	}
	out.fingerprint = catalogFingerprint(out.tools)
	return &out
}

// insertTools is a copy of a sorted list with tools added.
func insertTools(sorted, tools []*Tool) []*Tool {
	out := make([]*Tool, len(sorted), len(sorted)+len(tools))
	copy(out, sorted)
	if len(tools) == 1 {
		at, _ := slices.BinarySearchFunc(out, tools[0], byName)
		return slices.Insert(out, at, tools[0])
	}
	out = append(out, tools...)
	slices.SortFunc(out, byName)
	return out
}
