// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// BuildOptions control which methods become tools, and how. The zero value includes every method and overrides nothing.
type BuildOptions struct {
	// Selection chooses the methods; nil includes all except infrastructure.
	Selection *Selection
	// Overlay overrides options. Where several entries match a method, the later one wins, member by member.
	Overlay []Override
	// Profile is the kind of client that advertised schemas are written for.
	Profile schema.Profile
	// Thorough checks every message twice, see [transcode.Options]. Disagreed is called with each discrepancy found.
	Thorough  bool
	Disagreed func(*transcode.DisagreementError)
	// Lock lists the tools that were reviewed; nil for none. [Live] compares each catalog with it. Build does not.
	Lock *lock.Lock
	// RefuseDrift leaves out the tools that Lock does not list, or lists with another digest.
	RefuseDrift bool
	// LacksHTTP2 reports whether the backend is known to offer HTTP/1.1 only; nil: it is not. [Live] asks with each load, and
	// then lists no bidirectional streams. Build does not.
	LacksHTTP2 func() bool
	// Compact keeps the names of the tools of a compact catalog for it: no other tool may have one.
	Compact bool
	// DeclaredOnly marks tools as destructive by what is declared alone, and not by the verbs of their names.
	DeclaredOnly bool
	// Listed says how lists show the schemas.
	Listed ListForm
	// MaxDepth bounds the nesting of arguments; 0 means the default of package schema.
	MaxDepth int
	Limits   Limits
}

// Build makes a catalog from the loads of all sources. Every method becomes a tool, including streaming ones, and so
// does every tool that a native backend declares.
//
// The error is a *BuildError if names collide or an option is invalid. It wraps ErrEmpty if no tool would be left.
// Problems that affect only some files or methods are reported as warnings of the catalog.
func Build(loads []*source.Loaded, o BuildOptions) (*Catalog, error) {
	c, _, err := build(loads, o, nil)
	return c, err
}

// build is Build on top of an earlier one by the same options, nil for none, and returns what it keeps for the next one. Then
// the error is errStale where files are needed that the sources have left out. It may also be another one than without an
// earlier build, which is why those are built again from nothing.
func build(loads []*source.Loaded, o BuildOptions, before *kept) (*Catalog, *kept, error) {
	merged, err := mergeFiles(loads, before.linkage())
	if err != nil {
		return nil, nil, err
	}
	linked, err := linkFiles(merged, before.linkage())
	if err != nil {
		return nil, nil, err
	}
	types, warnings := newTypes(linked)
	overlay, problems := compileOverlay(o.Overlay)
	b := &builder{
		linked: linked, types: types, overlay: overlay, overlayIndex: newOverlayIndex(overlay), selection: o.Selection, limits: o.Limits.withDefaults(),
		comments: comments{}, problems: problems, reserved: o.Compact, declaredOnly: o.DeclaredOnly, listed: o.Listed,
		warnings: slices.Concat(merged.warnings, linked.warnings, warnings),
	}
	messages, tools := before.sizes()
	b.bind = newBinder(linked, types, o, messages, tools)
	b.world = world{
		hasToolOption: definesOption(linked.registry, optionsv1.E_Tool), hasResourceOption: definesOption(linked.registry, optionsv1.E_Resource),
		rules: b.bind.digests.rules, extensions: b.bind.digests.extensions,
	}
	if before != nil && before.world == b.world {
		b.before = before
	}
	c, err := b.build(loads)
	if err != nil {
		return nil, nil, err
	}
	return c, b.keep(c, loads), nil
}

// build makes the tools of all loads.
func (b *builder) build(loads []*source.Loaded) (*Catalog, error) {
	for _, load := range loads {
		b.warnings = append(b.warnings, load.Warnings...)
	}
	offers := b.offered(loads)
	b.tellVersions(offers)
	b.keepSuffixes(offers)
	for _, s := range offers {
		switch {
		case s.isOperations():
			b.operationsService(s)
		case s.isTyped:
			b.typedService(s)
		default:
			b.service(s)
		}
	}
	for _, load := range loads {
		b.native(load)
	}
	b.continueOperations()
	return b.finish()
}

// builder is the state of one Build.
type builder struct {
	linked  *linker
	types   *Types
	bind    *binder
	overlay []overlayEntry
	// overlayIndex is of overlay.
	overlayIndex overlayIndex
	selection    *Selection
	limits       Limits
	// world tells among other things whether the descriptors define our options.
	world world
	// before is the build whose tools may be taken over; nil for none.
	before *kept
	// reserved keeps the names of a compact catalog.
	reserved bool
	// declaredOnly is BuildOptions.DeclaredOnly.
	declaredOnly bool
	listed       ListForm
	// suffixed are the services that keep their Service suffix, plain the names that methods have, in MCP's form.
	suffixed map[string]bool
	plain    map[string]holder
	// claims are the names that methods would have, by service.
	claims map[string]*claims
	// versions are what the services have behind their names that another version of them would clash with.
	versions map[string]string
	comments comments
	rules    optionRules
	contract contractRules
	// description is what the native backend says about itself; nil where there is none.
	description *outriggerv1.ServerDescription

	tools []*Tool
	// typed are RPCs of a sidecar behind, for typed callers alone.
	typed []*Tool
	// operations are the RPCs of google.longrunning.Operations, for typed callers alone.
	operations []*Tool
	resources  []*resource.Method
	problems   []Problem
	warnings   []source.Warning
	// passedOver are services that are there and not offered.
	passedOver []string
	// seen counts the methods that were looked at, unselected those that no glob took. unlinked counts the services whose
	// descriptors cannot be used.
	seen, unselected, unlinked int
}

// offer is a service and who offers it.
type offer struct {
	service protoreflect.ServiceDescriptor
	source  string
	// isTyped is set where it makes no tools: a sidecar offers it, which lists tools of its own for it, or it is
	// google.longrunning.Operations.
	isTyped bool
}

// offered lists the services to make tools of, each once, sorted by name.
func (b *builder) offered(loads []*source.Loaded) []offer {
	from, isTyped := map[string]string{}, map[string]bool{}
	isSidecar := slices.ContainsFunc(loads, func(l *source.Loaded) bool { return isSidecar(l.Native) })
	for _, load := range loads {
		names := load.Services
		if names == nil {
			names = b.declared(load)
		}
		for _, name := range names {
			if b.selection.Skips(name) {
				b.passedOver = append(b.passedOver, name)
			} else if _, ok := from[name]; !ok {
				from[name] = load.Source
				isTyped[name] = isSidecar && load.Reflected || name == longrunning.OperationsService && !b.selection.namesService(name)
			}
		}
	}
	var out []offer
	for _, name := range shown.SortedKeys(from) {
		d, err := b.linked.registry.FindDescriptorByName(protoreflect.FullName(name))
		service, ok := d.(protoreflect.ServiceDescriptor)
		if err != nil || !ok {
			b.warn(name, "service omitted: "+b.linked.whyNot(name))
			b.unlinked++
			continue
		}
		out = append(out, offer{service, from[name], isTyped[name]})
	}
	return out
}

// declared are the services of a load that does not say itself what it offers: all of its files', without those that
// are there only to be imported, unless they are asked for by name. The demo's services are the backend of a set that has
// no other service; beside others they came along with our own files.
func (b *builder) declared(load *source.Loaded) []string {
	var out []string
	imported := map[string]bool{}
	for _, path := range load.Imported {
		imported[path] = true
	}
	take := func(path string, services []string) {
		for _, name := range services {
			if imported[path] && !b.selection.namesService(name) {
				b.passedOver = append(b.passedOver, name)
				continue
			}
			out = append(out, name)
		}
	}
	for _, path := range load.Same {
		take(path, b.linked.services(path))
	}
	for _, f := range load.Files {
		take(f.GetName(), servicesOf(f))
	}
	isDemo := func(service string) bool { return strings.HasPrefix(service, "outrigger.demo.") }
	if !slices.ContainsFunc(out, func(name string) bool { return !isDemo(name) && !source.IsInfrastructure(name) }) {
		return out
	}
	return slices.DeleteFunc(out, func(name string) bool {
		isLeftOut := isDemo(name) && !b.selection.namesService(name)
		if isLeftOut {
			b.passedOver = append(b.passedOver, name)
		}
		return isLeftOut
	})
}

// service makes tools of one service's methods.
func (b *builder) service(of offer) {
	methods, before := of.service.Methods(), len(b.tools)
	for i := range methods.Len() {
		b.seen++
		t, err := b.tool(methods.Get(i), of.source)
		switch {
		case err != nil:
			b.warn(methodName(methods.Get(i)), "method omitted: "+err.Error())
		case t != nil:
			b.tools = append(b.tools, t)
		}
	}
	b.omitTwins(before)
}

// tool makes a tool of one method, or takes it over from the last catalog; nil where it is not selected, or where a problem
// was noted. An error costs the method.
func (b *builder) tool(md protoreflect.MethodDescriptor, source string) (*Tool, error) {
	id, derived := methodName(md), b.derivedNames(md)
	if t, ok, err := b.reuse(md, id, source, derived); ok {
		return t, err
	}
	warned, resources := len(b.warnings), len(b.resources)
	t, isMarked, err := b.newTool(md, id, source, derived)
	if t != nil {
		t.isPlain = !isMarked && t.Name == derived.name && len(b.warnings) == warned && len(b.resources) == resources
		t.alias = derived.alias
	}
	return t, err
}

// newTool makes a tool of one method, and tells whether the overlay or a declared name has a part in it.
func (b *builder) newTool(md protoreflect.MethodDescriptor, id, source string, derived derivedNames) (_ *Tool, isMarked bool, _ error) {
	options, err := readMethodOptions(md, b.world.hasToolOption)
	if err != nil {
		// Excluding it by what is known of it must remain a way out.
		if b.selection.takes(string(md.Parent().FullName()), id, derived.forms()...) {
			b.problems = append(b.problems, Problem{id, err.Error()})
		} else {
			b.unselected++
		}
		return nil, false, nil
	}
	names := derived.forms()
	if n := options.tool.GetName(); n != "" {
		names = append(names, n, MCPName(n))
	}
	declared, schemas, isMarked := b.overlaid(string(md.Parent().FullName()), id, names, options.tool)
	name := cmp.Or(declared.GetName(), derived.name)
	if !b.selection.takes(string(md.Parent().FullName()), id, append(derived.forms(), name, MCPName(name))...) {
		b.unselected++
		return nil, false, nil
	}
	if err := b.rules.check(declared); err != nil {
		b.problems = append(b.problems, Problem{id, "option (outrigger.v1.tool) or overlay: " + oneLine(err)})
		return nil, false, nil
	}
	if len(name) > b.limits.MaxNameBytes {
		return nil, false, fmt.Errorf("its name has %d bytes; the limit is %d; set (outrigger.v1.tool).name", len(name), b.limits.MaxNameBytes)
	}
	t := &Tool{
		Name: name, MCPName: MCPName(name),
		Method: &Method{
			Procedure: "/" + id, Service: string(md.Parent().FullName()), Source: source, Descriptor: md,
			ClientStreaming: md.IsStreamingClient(), ServerStreaming: md.IsStreamingServer(),
			Idempotency: options.idempotency,
		},
		Hidden: declared.GetHidden(),
	}
	if declared.GetName() == "" {
		t.Alias = derived.alias
	} else {
		isMarked, t.isNamed = true, true
	}
	header, err := streamHeader(md, declared.GetStreamHeader())
	if err != nil {
		b.problems = append(b.problems, Problem{id, "option (outrigger.v1.tool) or overlay: stream_header: " + err.Error()})
		return nil, false, nil //nolint:nilerr // it is a problem of the catalog, as others are
	}
	if err := b.bind.bind(t, header); err != nil {
		return nil, false, err
	}
	if err := b.operation(t); err != nil {
		return nil, false, err
	}
	if words := b.words(t, t.Method.Service, id, names); len(words) > 0 {
		b.bind.showWords(t, header, words)
	}
	noted := b.noted(t)
	if b.bind.showResponses(t, noted.Responses) {
		isMarked = true // its schema is not that of its message alone
	}
	if isDeclared, err := b.declare(t, schemas); err != nil || !isDeclared {
		return nil, false, err
	}
	b.describe(t, options, declared, noted)
	if t.Operation != nil {
		isMarked = true // it depends on files that the method's file need not import
		t.settleOperation()
	}
	b.resource(t, schemas.Resource)
	b.watch(t, declared.GetWatch())
	return t, isMarked, nil
}

// finish checks the tools together and freezes them.
func (b *builder) finish() (*Catalog, error) {
	b.tellMissing()
	for _, e := range b.overlay {
		if !e.wasUsed {
			b.warn("overlay entry "+e.Match, "it matches no method")
		}
	}
	resources := b.readable()
	collisions, byName := b.settleNames()
	b.reserveNames()
	if len(collisions)+len(b.problems) > 0 {
		return nil, b.fault(collisions, b.problems...)
	}
	visible := 0
	for _, t := range b.tools {
		if !t.Hidden {
			visible++
		}
	}
	if visible == 0 {
		return nil, b.empty()
	}
	if visible > b.limits.MaxTools {
		return nil, b.fault(nil, Problem{"catalog",
			fmt.Sprintf("it would have %d tools; the limit is %d (limits.max_tools); use --include and --exclude", visible, b.limits.MaxTools)})
	}
	c, err := newCatalog(b.tools, byName, b.typedTools(), b.linked, b.types, b.warnings)
	if err != nil {
		return nil, err
	}
	c.description, c.resources, c.reserved, c.declaredOnly, c.listed = b.description, resources, b.reserved, b.declaredOnly, b.listed
	b.tell(c.own.services)
	c.isStrict = b.bind.profile == schema.ProfileStrict
	return c, nil
}

// reserveNames notes the tools that have a name of a compact catalog.
func (b *builder) reserveNames() {
	for _, t := range b.tools {
		if why := reservedName(t.names()); b.reserved && why != "" && !t.Hidden {
			b.problems = append(b.problems, Problem{t.Subject(), why})
		}
	}
}

// fault is the error for what somebody has to change.
func (b *builder) fault(collisions []Collision, problems ...Problem) *BuildError {
	slices.SortFunc(b.tools, inOrder)
	return &BuildError{Collisions: collisions, Problems: problems, Tools: b.tools}
}

// empty says why there are no tools.
func (b *builder) empty() error {
	var why []string
	if b.seen == 0 {
		why = append(why, "no source has a service with methods")
	}
	if len(b.passedOver) > 0 {
		why = append(why, fmt.Sprintf("%s %s infrastructure, excluded or only imported (--include with the full name takes it)",
			shown.ClipList(b.passedOver), shown.Plural(len(b.passedOver), "is", "are")))
	}
	if b.unselected > 0 {
		why = append(why, fmt.Sprintf("--include and --exclude omit %d of %d methods", b.unselected, b.seen))
	}
	if n := len(b.tools); n > 0 {
		why = append(why, fmt.Sprintf("%d %s hidden", n, shown.Plural(n, "is", "are")))
	}
	if len(b.warnings) > 0 {
		why = append(why, b.warnings[0].String())
	}
	if b.seen == 0 && b.unlinked > 0 {
		return fmt.Errorf("%w: %w: %s", ErrEmpty, ErrIncomplete, strings.Join(why, "; "))
	}
	return fmt.Errorf("%w: %s", ErrEmpty, strings.Join(why, "; "))
}

func (b *builder) warn(subject, text string) {
	b.warnings = append(b.warnings, source.Warning{Subject: subject, Text: text})
}

// methodName is "pkg.Service/Method".
func methodName(md protoreflect.MethodDescriptor) string {
	return string(md.Parent().FullName()) + "/" + string(md.Name())
}
