// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// bind makes the registered tool in a catalog. The faults say what of the catalog does not fit it.
func (r *registered) bind(c *Catalog, limits Limits) (*Tool, []schema.Violation, error) {
	base, fault := c.bindable(r.Binding)
	if fault != "" {
		return nil, []schema.Violation{{Path: "/binding", Keyword: "binding", Message: fault}}, nil
	}
	t := *base
	t.Name, t.MCPName, t.Registered, t.Base = r.Name, MCPName(r.Name), true, base
	t.Alias = "" // that of the RPC's own tool
	t.Version = r.Version
	t.Timeout = cmp.Or(r.Timeout, base.Timeout)
	t.TaskSupport, t.TaskAfter = r.TaskSupport, 0
	t.Tags, t.Examples = nil, r.Examples
	t.Metadata = r.Metadata.settled()
	t.Metadata.Module = cmp.Or(shown.Clean(t.Metadata.Module), base.Metadata.Module)
	t.Metadata.DeprecatedIn = cmp.Or(shown.Clean(t.Metadata.DeprecatedIn), base.Metadata.DeprecatedIn)
	// What the RPC may destroy it destroys under every name.
	t.Metadata.Destructive = t.Metadata.Destructive || base.Metadata.Destructive
	t.Annotations = r.Annotations.over(base.Annotations)
	if !c.declaredOnly {
		t.markVerb()
	}
	t.markShown()
	if t.Metadata.Destructive {
		yes, no := true, false
		t.Annotations.Destructive, t.Annotations.ReadOnly = &yes, &no
	}
	t.Title = cutRunes(cmp.Or(r.Title, firstSentence(r.Description), base.Title), limits.MaxTitleRunes)
	t.Undescribed = false
	t.Description = deprecation(t.Metadata.DeprecatedIn) + r.Description
	if err := t.declare(r.input, r.output, c.types); err != nil {
		return nil, nil, err
	}
	var faults []schema.Violation
	if t.IsDocument() && r.output.validator != nil {
		faults = append(faults, schema.Violation{Path: "/output_schema", Keyword: "binding", Message: noSchemaForBody})
	}
	for i, e := range r.Examples {
		if err := t.checkExample(e.Arguments); err != nil {
			faults = append(faults, schema.Violation{Path: fmt.Sprintf("/examples/%d/arguments_json", i), Keyword: "example",
				Message: "the tool would reject these arguments: " + shown.Clip(err.Error())})
		}
	}
	if len(faults) > 0 {
		return nil, faults, nil
	}
	return &t, nil, t.seal()
}

// bindable is the derived tool of an RPC, or why there is none to bind to. What is hidden or excluded is not offered,
// under any name.
func (c *Catalog) bindable(b Binding) (*Tool, string) {
	rpc := shown.Clip(strings.TrimPrefix(b.procedure(), "/"))
	t := c.derived[b.procedure()]
	switch {
	case b.Service == "" || b.Method == "":
		return nil, "set service and method of the RPC"
	case t == nil || t.Hidden:
		return nil, fmt.Sprintf("there is no RPC %s; %s", rpc, c.offers(b.Service))
	case t.Method.ClientStreaming || t.Method.ServerStreaming:
		return nil, rpc + " is a streaming RPC; only unary RPCs can be bound"
	}
	return t, ""
}

// offers says what a binding could name instead.
func (c *Catalog) offers(service string) string {
	var services, methods []string
	for _, s := range c.own.services {
		services = append(services, s.Name)
		for _, t := range s.Tools {
			if s.Name == service && !t.Hidden {
				methods = append(methods, string(t.Method.Descriptor.Name()))
			}
		}
	}
	if len(methods) > 0 {
		return "the methods of the service are " + shown.ClipList(methods)
	}
	return "the services are " + shown.ClipList(services)
}

// taken says which tool has a name of the given one already; empty where none has. Names are looked up where callers
// look them up.
func taken(lookup func(name string) (*Tool, bool), t *Tool) string {
	for _, form := range [...]struct{ kind, name string }{{"", t.Name}, {"MCP ", t.MCPName}} {
		if other, ok := lookup(form.name); ok {
			return fmt.Sprintf("the %sname %q belongs to the tool %s of %s", form.kind, form.name, other.Name,
				other.Subject())
		}
	}
	return ""
}

// rebind adds the registrations to a fresh catalog. What does not fit it any more is left out with a warning, and comes
// back with what it needs.
func (c *Catalog) rebind(all []*registered, limits Limits) (*Catalog, error) {
	if len(all) == 0 {
		return c, nil
	}
	var tools []*Tool
	var warnings []source.Warning
	names := map[string]*Tool{} // those of tools
	lookup := func(name string) (*Tool, bool) {
		if t, ok := names[name]; ok {
			return t, true
		}
		return c.Lookup(name)
	}
	for _, r := range all {
		t, faults, err := r.bind(c, limits)
		if err != nil {
			return nil, err
		}
		var why string
		switch {
		case len(faults) > 0:
			why = faults[0].Message
		case c.count()+len(tools) >= limits.MaxTools:
			why = fmt.Sprintf("the catalog has %d tools, which is the limit", limits.MaxTools)
		default:
			why = cmp.Or(c.reserves(t), taken(lookup, t))
		}
		if why != "" {
			warnings = append(warnings, source.Warning{Subject: "registration " + r.Name, Text: "it is left out: " + why})
			continue
		}
		names[t.Name], names[t.MCPName] = t, t
		tools = append(tools, t)
	}
	return c.with(tools, warnings), nil
}
