// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Registration is a tool declared at run time: an RPC of the backend under a chosen name with chosen schemas.
// Name, Description, InputSchema and Binding are required. Do not modify anything it refers to afterwards.
type Registration struct {
	// Name is the canonical name.
	Name               string
	Title, Description string
	// InputSchema and OutputSchema are JSON Schemas with "type": "object" at their roots. If OutputSchema is unset, the
	// output schema is that of the RPC's own tool.
	InputSchema, OutputSchema json.RawMessage
	Binding                   Binding
	// Metadata overrides that of the RPC's own tool. A registration can mark a tool as destructive but never remove the
	// mark, so a second name does not bypass the gate.
	Metadata RegisteredMetadata
	// Annotations override those of the RPC's own tool, hint by hint.
	Annotations Annotations
	// Version is a semantic version; empty means 1.0.0.
	Version string
	// Timeout bounds one call; 0 means the timeout of the RPC's own tool.
	Timeout time.Duration
	// TaskSupport defaults to "forbidden" if empty.
	TaskSupport string
	// Examples are sample calls for models, which the tool must accept.
	Examples []Example
}

// Binding names an RPC.
type Binding struct {
	// Service is the full name of the service. Method is the simple name of the method.
	Service, Method string
}

// procedure is the RPC's path.
func (b Binding) procedure() string { return "/" + b.Service + "/" + b.Method }

// RegisteredMetadata is Metadata with members that a registration may leave unset.
type RegisteredMetadata struct {
	Module       string
	Destructive  bool
	DeprecatedIn string
	// CacheTTL defaults to 300 s if nil.
	CacheTTL *time.Duration
}

// Refusal is the reason why a registration was refused.
type Refusal uint8

const (
	// Invalid means that the registration itself is invalid.
	Invalid Refusal = iota
	// Conflict means that the name belongs to a different tool, or that another version is registered.
	Conflict
	// TooMany means that the registration exceeds a limit.
	TooMany
	// Unknown means that no tool with the name is registered.
	Unknown
)

// RegistrationError is the reason why a tool was not registered.
type RegistrationError struct {
	// Name is the tool's name, sanitized for display.
	Name   string
	Reason Refusal
	// Faults are all problems found. Paths are JSON Pointers into outrigger.v1.RegisterToolRequest.
	Faults []schema.Violation
	// Remedy explains how to replace the registered tool, if a higher version would do that.
	Remedy string
}

// Error lists the faults on one line.
func (e *RegistrationError) Error() string {
	var faults []string
	for _, f := range e.Faults {
		faults = append(faults, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
	}
	if e.Remedy != "" {
		faults = append(faults, e.Remedy)
	}
	return fmt.Sprintf("tool %q is not registered: %s", e.Name, strings.Join(faults, "; "))
}

// registered is a valid registration, ready to be bound to any catalog.
type registered struct {
	Registration
	input, output declaration
	// bytes is what it counts for in Limits.MaxRegisteredBytes.
	bytes int
}

// prepare checks what can be told without a catalog, and compiles the schemas.
func (r Registration) prepare(rules *contractRules) (*registered, []schema.Violation, error) {
	r.Name, r.Version = strings.Clone(r.Name), cmp.Or(r.Version, defaultVersion)
	r.Title = strings.Join(strings.Fields(shown.Clean(r.Title)), " ")
	r.Description = strings.TrimSpace(shown.Clean(r.Description))
	r.TaskSupport = cmp.Or(r.TaskSupport, "forbidden")
	out := &registered{Registration: r}
	var faults []schema.Violation
	add := func(path, keyword, message string) {
		faults = append(faults, schema.Violation{Path: path, Keyword: keyword, Message: message})
	}
	if r.Name == "" {
		add("/name", "required", "a tool needs a name")
	}
	switch {
	case r.Description == "":
		add("/description", "required", "a tool needs a description, which models use to choose tools")
	case len(r.Description) > contract().description: // it is not cut: the words were chosen on purpose
		add("/description", "maxLength", fmt.Sprintf("it has %d bytes; the limit is %d", len(r.Description), contract().description))
	}
	broken, err := rules.violations(r.options())
	if err != nil {
		return nil, nil, err
	}
	for _, v := range broken {
		add(requestPath(v.Path), v.Keyword, v.Message)
	}
	declare := func(member string, raw json.RawMessage) declaration {
		d, found := compileDeclared(raw)
		for _, f := range found {
			add(member+f.Path, f.Keyword, f.Message)
		}
		return d
	}
	if r.InputSchema == nil {
		add("/input_schema", "required", `a tool needs an input schema; without arguments it is {"type": "object", "additionalProperties": false}`)
	} else {
		out.input = declare("/input_schema", r.InputSchema)
	}
	if r.OutputSchema != nil {
		out.output = declare("/output_schema", r.OutputSchema)
	}
	for i, e := range r.Examples {
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			add(fmt.Sprintf("/examples/%d/data_json", i), "json", "it is not JSON")
		}
	}
	// The texts of the schemas are kept as they were compiled.
	out.InputSchema, out.OutputSchema = nil, nil
	out.bytes = r.size()
	return out, faults, nil
}

// options are the members that a registration shares with the options of a method, whose rules they keep.
func (r *Registration) options() *configv1.ToolOptions {
	o := &configv1.ToolOptions{
		Name: r.Name, Title: r.Title, Version: r.Version, Module: r.Metadata.Module,
		DeprecatedIn: r.Metadata.DeprecatedIn, TaskSupport: r.TaskSupport,
	}
	if r.Metadata.Destructive {
		o.Destructive, o.ReadOnly = &r.Metadata.Destructive, r.Annotations.ReadOnly
	}
	if r.Metadata.CacheTTL != nil {
		o.CacheTtl = durationpb.New(*r.Metadata.CacheTTL)
	}
	if r.Timeout != 0 {
		o.Timeout = durationpb.New(r.Timeout)
	}
	for _, e := range r.Examples {
		o.Examples = append(o.Examples, &outriggerv1.ToolExample{
			Name: e.Name, Description: e.Description, ArgumentsJson: string(e.Arguments), DataJson: string(e.Data), Status: e.Status,
		})
	}
	return o
}

// requestPath is the path in a registration of what has another one among the options of a method.
func requestPath(path string) string {
	member, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch member {
	case "module", "deprecated_in", "cache_ttl":
		return "/metadata" + path
	case "timeout", "task_support":
		return "/execution" + path
	case "":
		return "/metadata/destructive"
	}
	return path
}

// size is about what the registration takes in memory, without what its schemas are compiled to.
func (r *Registration) size() int {
	n := len(r.Name) + len(r.Title) + len(r.Description) + len(r.InputSchema) + len(r.OutputSchema) + len(r.Binding.Service) +
		len(r.Binding.Method) + len(r.Metadata.Module) + len(r.Metadata.DeprecatedIn) + len(r.Version)
	for _, e := range r.Examples {
		n += len(e.Name) + len(e.Description) + len(e.Arguments) + len(e.Data)
	}
	return n
}

// differences names the members in which two registrations of one name are not the same. Schemas are compared by their
// meaning as JSON: white space, the order of members and escapes do not count.
func (r *registered) differences(other *registered) []string {
	var out []string
	for _, member := range []struct {
		name     string
		one, two any
	}{
		{"input_schema", r.input.canonical, other.input.canonical},
		{"output_schema", r.output.canonical, other.output.canonical},
		{"binding", r.Binding, other.Binding},
		{"description", r.Description, other.Description},
		{"title", r.Title, other.Title},
		{"version", r.Version, other.Version},
		{"metadata", r.Metadata.settled(), other.Metadata.settled()},
		{"annotations", r.Annotations, other.Annotations},
		{"execution.timeout", r.Timeout, other.Timeout},
		{"execution.task_support", r.TaskSupport, other.TaskSupport},
		{"examples", r.Examples, other.Examples},
	} {
		if !reflect.DeepEqual(member.one, member.two) {
			out = append(out, member.name)
		}
	}
	return out
}

// settled fills in the default of what was left open.
func (m RegisteredMetadata) settled() Metadata {
	ttl := defaultCacheTTL
	if m.CacheTTL != nil {
		ttl = *m.CacheTTL
	}
	return Metadata{Module: m.Module, Destructive: m.Destructive, DeprecatedIn: m.DeprecatedIn, CacheTTL: ttl}
}

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
	t.markDestructive(c.declaredOnly)
	if t.Metadata.Destructive {
		yes, no := true, false
		t.Annotations.Destructive, t.Annotations.ReadOnly = &yes, &no
	}
	t.Title = cutRunes(cmp.Or(r.Title, firstSentence(r.Description), base.Title), limits.MaxTitleRunes)
	t.Undescribed = false
	t.Description = deprecation(t.Metadata.DeprecatedIn) + r.Description
	if err := t.declare(r.input, r.output, c.Of(base).types); err != nil {
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

// with is the lists with visible tools added, which are sorted by name and are among those of their services too.
func (l *lists) with(added []*Tool) *lists {
	out := &lists{visible: insertTools(l.visible, added, inOrder), all: insertTools(l.all, added, inOrder), services: slices.Clone(l.services)}
	byService := map[string][]*Tool{}
	for _, t := range added {
		byService[t.Method.Service] = append(byService[t.Method.Service], t)
	}
	for i := range out.services {
		if s := &out.services[i]; len(byService[s.Name]) > 0 {
			s.Tools = insertTools(s.Tools, byService[s.Name], inOrder)
		}
	}
	return out
}

// insertTools is a copy of a list with others added. Both are in the order.
func insertTools(sorted, added []*Tool, order func(a, b *Tool) int) []*Tool {
	out := make([]*Tool, 0, len(sorted)+len(added))
	for _, t := range added {
		at, _ := slices.BinarySearchFunc(sorted, t, order)
		out = append(append(out, sorted[:at]...), t)
		sorted = sorted[at:]
	}
	return append(out, sorted...)
}

// growth is what registrations added to the derived tools of a catalog. Immutable. One more tool copies the registered
// tools and nothing else, whatever the number of derived ones: a registration is to take microseconds.
type growth struct {
	base          *Catalog // what it was before the first registration
	byName, byMCP []*Tool
	// lists are those of derived and registered tools together, made when somebody first asks for one.
	lists func() *lists
}

// with is the growth with tools added to it, which are sorted by name, in a catalog that has grown that far.
func (g *growth) with(added []*Tool, c *Catalog) *growth {
	if g == nil {
		g = &growth{base: c}
	}
	derived, tools := g.base.own, insertTools(g.byName, added, inOrder)
	byMCP := func(a, b *Tool) int { return cmp.Compare(a.MCPName, b.MCPName) }
	return &growth{
		base: g.base, byName: tools, byMCP: insertTools(g.byMCP, slices.SortedFunc(slices.Values(added), byMCP), byMCP),
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
	return len(g.byName)
}

// lookup finds a tool by its canonical or its MCP name.
func (g *growth) lookup(name string) (*Tool, bool) {
	if g == nil {
		return nil, false
	}
	if at, found := slices.BinarySearchFunc(g.byName, name, func(t *Tool, name string) int { return cmp.Compare(t.Name, name) }); found {
		return g.byName[at], true
	}
	if at, found := slices.BinarySearchFunc(g.byMCP, name, func(t *Tool, name string) int { return cmp.Compare(t.MCPName, name) }); found {
		return g.byMCP[at], true
	}
	return nil, false
}

// registrations are the registered tools. They outlive the catalogs that have them, and are kept in memory.
type registrations struct {
	// mu is held while the catalog in use is replaced, and while those who watch are told.
	mu    sync.Mutex
	all   []*registered // by name
	rules contractRules
}

// Placement is the outcome of a registration.
type Placement struct {
	// Tool is the tool in the catalog in use.
	Tool *Tool
	// Created is true if the name is new.
	Created bool
	// Replaced is the version that the registration replaced; empty if it replaced none.
	Replaced string
}

// Put adds a tool to the catalog in use and to every later one. Repeating a registration changes nothing. A
// registration with a higher version replaces the one of the same name; in-flight calls keep the old one.
// Put waits for the first catalog until the context ends.
//
// The error is a *RegistrationError if the registration is refused, and a *NotReadyError if there is no catalog.
// A tool whose RPC disappears is left out of later catalogs with a warning, and returns when the RPC does.
func (l *Live) Put(ctx context.Context, r Registration) (Placement, error) {
	return l.PutStored(ctx, r, func() error { return nil })
}

// PutStored is like Put, and calls store when nothing else can refuse the registration any more. If store fails, that is
// the error, and nothing has changed. Other registrations wait for it.
func (l *Live) PutStored(ctx context.Context, r Registration, store func() error) (Placement, error) {
	known := &l.registered
	ready, faults, err := r.prepare(&known.rules)
	if err != nil {
		return Placement{}, err
	}
	if len(faults) > 0 {
		// The author of a registration wants all faults at once, the RPC too where that can be told.
		if c := l.Current(); c != nil {
			if _, fault := c.bindable(r.Binding); fault != "" {
				faults = append(faults, schema.Violation{Path: "/binding", Keyword: "binding", Message: fault})
			}
		}
		return Placement{}, refuse(r.Name, Invalid, faults...)
	}
	if _, err := l.Wait(ctx); err != nil {
		return Placement{}, err
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	c, limits := l.Current(), l.plan.Load().build.Limits.withDefaults()
	at, isKnown := known.find(r.Name)
	placed, all := Placement{Created: !isKnown}, slices.Clone(known.all)
	var earlier *registered
	if isKnown {
		earlier = all[at]
		differ := earlier.differences(ready)
		if t, ok := c.Lookup(r.Name); ok && t.Registered && len(differ) == 0 {
			if err := store(); err != nil { // it may have lost what is known here
				return Placement{}, err
			}
			return Placement{Tool: t}, nil
		}
		if len(differ) > 0 {
			if err := ready.mayReplace(earlier, differ); err != nil {
				return Placement{}, err
			}
			placed.Replaced, all[at] = earlier.Version, ready
		}
	} else {
		all = slices.Insert(all, at, ready)
	}
	if placed.Tool, err = known.fit(c, ready, earlier, limits); err != nil {
		return Placement{}, err
	}
	fresh := c.with([]*Tool{placed.Tool}, nil)
	if placed.Replaced != "" {
		if fresh, err = c.ungrown().rebind(all, limits); err != nil {
			return Placement{}, err
		}
		// Another registration may have become possible in the same moment and have taken a name or the last place.
		t, ok := fresh.Lookup(r.Name)
		if !ok || !t.Registered {
			return Placement{}, refuse(r.Name, Conflict, schema.Violation{Path: "/name", Keyword: "conflict",
				Message: "another registered tool took its name or the last slot in the catalog"})
		}
		placed.Tool = t
	}
	if err := l.putAll(all, fresh, store); err != nil {
		return Placement{}, err
	}
	return placed, nil
}

// putAll puts registrations into use with the catalog that has them, once they are stored. The caller holds the lock.
func (l *Live) putAll(all []*registered, fresh *Catalog, store func() error) error {
	if err := store(); err != nil {
		return err
	}
	l.registered.all = all
	l.tell(l.swap(fresh), fresh)
	return nil
}

// Registrations returns the registrations that are known, also those that are left out of the catalog in use, by their names.
func (l *Live) Registrations() []string {
	l.registered.mu.Lock()
	defer l.registered.mu.Unlock()
	out := make([]string, len(l.registered.all))
	for i, r := range l.registered.all {
		out[i] = r.Name
	}
	return out
}

// find is where the registration of a name is, or where it belongs. The caller holds the lock.
func (k *registrations) find(name string) (at int, isKnown bool) {
	return slices.BinarySearchFunc(k.all, name, func(r *registered, name string) int { return cmp.Compare(r.Name, name) })
}

// fit makes the tool of a registration for a catalog, in the place of an earlier one where that is not nil. The error
// says why it does not fit.
func (k *registrations) fit(c *Catalog, r, earlier *registered, limits Limits) (*Tool, error) {
	t, faults, err := r.bind(c, limits)
	switch {
	case err != nil:
		return nil, err
	case len(faults) > 0:
		return nil, refuse(r.Name, Invalid, faults...)
	}
	tools := c.count()
	others := func(name string) (*Tool, bool) {
		other, ok := c.Lookup(name)
		return other, ok && (!other.Registered || other.Name != r.Name)
	}
	if text := cmp.Or(c.reserves(t), taken(others, t)); text != "" {
		return nil, refuse(r.Name, Conflict, schema.Violation{Path: "/name", Keyword: "conflict", Message: text})
	}
	if own, ok := c.Lookup(r.Name); ok && own.Registered {
		tools-- // its place is free again
	}
	if full := k.full(r, earlier, tools, limits); full != "" {
		return nil, refuse(r.Name, TooMany, schema.Violation{Keyword: "limit", Message: full})
	}
	return t, nil
}

// bytes is what all registrations count for in Limits.MaxRegisteredBytes.
func (k *registrations) bytes() int {
	n := 0
	for _, r := range k.all {
		n += r.bytes
	}
	return n
}

// full says which limit a registration would break, in the place of an earlier one where that is not nil.
func (k *registrations) full(r, earlier *registered, tools int, limits Limits) string {
	now := k.bytes()
	bytes := now + r.bytes
	if earlier != nil {
		bytes -= earlier.bytes
	}
	switch {
	case tools >= limits.MaxTools:
		return fmt.Sprintf("the catalog has %d tools, which is the limit", tools)
	case earlier == nil && len(k.all) >= limits.MaxRegistrations:
		return fmt.Sprintf("%d tools are registered, which is the limit", len(k.all))
	case bytes > limits.MaxRegisteredBytes && bytes > now:
		return fmt.Sprintf("the registrations would have %d bytes; the limit is %d", bytes, limits.MaxRegisteredBytes)
	}
	return ""
}

// refuse makes the error. The name comes from outside.
func refuse(name string, why Refusal, faults ...schema.Violation) *RegistrationError {
	return &RegistrationError{Name: shown.Clip(name), Reason: why, Faults: schema.SortViolations(faults, schema.DefaultMaxViolations)}
}

// mayReplace says why a registration cannot take the place of an earlier one, from which it differs in some members: its
// version is not higher.
func (r *registered) mayReplace(earlier *registered, differ []string) error {
	if higher, err := isHigher(r.Version, earlier.Version); err != nil || higher {
		return err
	}
	var faults []schema.Violation
	for _, member := range differ {
		faults = append(faults, schema.Violation{Path: "/" + strings.ReplaceAll(member, ".", "/"), Keyword: "conflict",
			Message: "the tool registered under this name differs in " + member})
	}
	out := refuse(r.Name, Conflict, faults...)
	out.Remedy = "raise the version above " + earlier.Version + " to replace it"
	return out
}

// isHigher compares two semantic versions. Build metadata does not count.
func isHigher(version, than string) (bool, error) {
	one, err := semver.StrictNewVersion(version)
	if err != nil {
		return false, err
	}
	other, err := semver.StrictNewVersion(than)
	if err != nil {
		return false, err
	}
	return one.GreaterThan(other), nil
}

// nearestRegistered is how many names an [UnregistrationError] proposes.
const nearestRegistered = 3

// UnregistrationError is the reason why a tool was not unregistered.
type UnregistrationError struct {
	// Name is the tool's name, sanitized for display.
	Name string
	// Reason is Unknown if no tool has the name, Invalid if the tool is the backend's own, and Conflict if another version
	// is registered.
	Reason Refusal
	// Text explains the reason to people.
	Text string
	// Nearest are names of registered tools similar to an unknown one.
	Nearest []string
}

// Error returns the reason as text.
func (e *UnregistrationError) Error() string {
	return fmt.Sprintf("tool %q is not unregistered: %s", e.Name, e.Text)
}

// Unregister removes a registered tool from the catalog in use and from every later one, and returns its version.
// In-flight calls finish normally. If version is not empty, only that version is removed. Unregister waits for the first
// catalog until the context ends.
//
// The error is an *UnregistrationError if there is nothing to remove, and a *NotReadyError if there is no catalog.
func (l *Live) Unregister(ctx context.Context, name, version string) (string, error) {
	return l.UnregisterStored(ctx, name, version, func() error { return nil })
}

// UnregisterStored is like Unregister, and calls store when nothing else can refuse it any more. If store fails, that is the
// error, and nothing has changed.
func (l *Live) UnregisterStored(ctx context.Context, name, version string, store func() error) (string, error) {
	if _, err := l.Wait(ctx); err != nil {
		return "", err
	}
	known := &l.registered
	known.mu.Lock()
	defer known.mu.Unlock()
	c, limits := l.Current(), l.plan.Load().build.Limits.withDefaults()
	at, isKnown := known.find(name)
	if !isKnown {
		return "", c.notRegistered(name)
	}
	gone := known.all[at]
	if version != "" && version != gone.Version {
		return "", &UnregistrationError{Name: shown.Clip(name), Reason: Conflict,
			Text: fmt.Sprintf("version %s is registered, not %s", gone.Version, shown.Clip(version))}
	}
	// The others are bound again, because one of them may have been left out for the sake of this one.
	all := slices.Delete(slices.Clone(known.all), at, at+1)
	fresh, err := c.ungrown().rebind(all, limits)
	if err != nil {
		return "", err
	}
	if err := l.putAll(all, fresh, store); err != nil {
		return "", err
	}
	return gone.Version, nil
}

// notRegistered says why a name is not one that can be taken back.
func (c *Catalog) notRegistered(name string) error {
	if t, ok := c.Lookup(name); ok && !t.Registered {
		return &UnregistrationError{Name: shown.Clip(name), Reason: Invalid, Text: fmt.Sprintf(
			"it is not a registered tool: it comes from %s; to hide it, use an exclude pattern or the overlay", t.Subject())}
	}
	out := &UnregistrationError{Name: shown.Clip(name), Reason: Unknown, Text: "no tool of this name is registered"}
	if c.growth != nil {
		out.Nearest = nearestOf(c.growth.byName, name, nearestRegistered)
	}
	return out
}
