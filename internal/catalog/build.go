// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// BuildOptions control which methods become tools, and how. The zero value includes every method and overrides nothing.
type BuildOptions struct {
	// Selection chooses the methods; nil includes all except infrastructure.
	Selection *Selection
	// Overlay overrides options. Where several entries match a method, the later one wins, member by member.
	Overlay []Override
	// Backend is the name of the backend that the tools are of, Prefix what their names begin with, where several backends are shown
	// as one; both are empty otherwise.
	Backend, Prefix string
	// Timeout is that of tools without one of their own; 0 is the sidecar's.
	Timeout time.Duration
	// Services are other names of services, by their full names, for the names of their tools: shop2 for shop.v2.Shop.
	Services map[string]string
	// Profile is the kind of client that advertised schemas are written for.
	Profile schema.Profile
	// Lock lists the tools that were reviewed; nil for none. [Live] compares each catalog with it. Build does not.
	Lock *lock.Lock
	// RefuseDrift leaves out the tools that Lock does not list, or lists with another digest.
	RefuseDrift bool
	// LacksHTTP2 reports whether the backend is known to offer HTTP/1.1 only; nil: it is not. [Live] asks with each load, and
	// then lists no bidirectional streams. Build does not.
	LacksHTTP2 func() bool
	// Compact keeps the names of the tools of a compact catalog for it: no other tool may have one.
	Compact bool
	// Programs offers the tool that runs programs, beside the others of a compact catalog or in a full one, and keeps its name.
	Programs bool
	// DeclaredOnly marks tools as destructive by what is declared alone, and not by the verbs of their names.
	DeclaredOnly bool
	// Rivals reads the annotations of other MCP servers (schema.Rivals).
	Rivals bool
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
	linked, err := linkFiles(merged, before.linkage(), o.Rivals)
	if err != nil {
		return nil, nil, err
	}
	types, warnings := newTypes(linked)
	overlay, problems := compileOverlay(o.Overlay)
	b := &builder{
		linked: linked, types: types, overlay: overlay, overlayIndex: newOverlayIndex(overlay), selection: o.Selection, limits: o.Limits.withDefaults(),
		comments: comments{}, rules: &contractRules{}, problems: problems, reserved: reserved{o.Compact, o.Programs}, declaredOnly: o.DeclaredOnly, listed: o.Listed,
		warnings: slices.Concat(merged.warnings, linked.warnings, warnings),
		backend:  o.Backend, prefix: o.Prefix, renamed: o.Services, timeout: o.Timeout,
	}
	b.bind = newBinder(linked, types, o)
	b.world = world{
		hasToolOption: definesOurs(linked, optionsv1.E_Tool), hasResourceOption: definesOurs(linked, optionsv1.E_Resource),
		rivals: linked.rivals(o.Rivals),
		rules:  b.bind.digests.rules, extensions: b.bind.digests.extensions,
	}
	b.warnUnlessRivals(o.Rivals)
	if before != nil && before.world == b.world {
		b.before = before
	}
	c, err := b.build(loads)
	if err != nil {
		return nil, nil, err
	}
	b.bind.transcoder.Forget()
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
		case s.isTyped && s.service.FullName() == longrunning.OperationsService:
			// Generated clients follow operations by these RPCs. Others do by tasks and handles, which are bound to the caller.
			b.operations = append(b.operations, b.aside(s)...)
		case s.isTyped:
			// The sidecar has made tools of the RPCs, as its operator wants them, and lists those itself: under other names,
			// without some, with more than one for an RPC.
			b.typed = append(b.typed, b.aside(s)...)
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
	// reserved are the names that are kept for the sidecar's own tools.
	reserved reserved
	// backend, prefix and renamed are BuildOptions.Backend, Prefix and Services.
	backend, prefix string
	renamed         map[string]string
	timeout         time.Duration
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
	rules    *contractRules
	// description is the native backend's description of itself; nil if there is none.
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
	// leftOut are the first of the methods that no glob took.
	leftOut []string
}

// offer is a service, and the source that has it.
type offer struct {
	service protoreflect.ServiceDescriptor
	source  string
	// isTyped is set where it makes no tools: a sidecar offers it, which lists its own tools for it, or it is
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

// aside makes the tools of a service for typed callers alone: nothing is to be said about them, and no later catalog takes
// them over.
func (b *builder) aside(of offer) []*Tool {
	scratch := *b // what it appends is of no interest
	scratch.before = nil
	var out []*Tool
	methods := of.service.Methods()
	for i := range methods.Len() {
		if t, err := scratch.tool(methods.Get(i), of.source); err == nil && t != nil {
			t.isPlain = false
			out = append(out, t)
		}
	}
	return out
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
			b.unselect(id)
		}
		return nil, false, nil
	}
	names := derived.forms()
	if n := options.tool.GetName(); n != "" {
		names = append(names, n, MCPName(n))
	}
	theirs, err := b.rivalOf(md, options)
	if err != nil {
		return nil, false, err
	}
	if theirs.mcpName != "" {
		names = append(names, theirs.mcpName)
	}
	declared, schemas, isMarked := b.overlaid(string(md.Parent().FullName()), id, names, options.tool)
	if theirs.isDenied {
		theirs.options.Hidden = proto.Bool(true)
	}
	declared, isMarked = theirs.below(declared), isMarked || theirs.options != nil
	name := cmp.Or(declared.GetName(), derived.name)
	if declared.GetName() == options.tool.GetName() && declared.GetName() != "" {
		name = b.prefixed(name) // the overlay names a tool in full
	}
	if !b.selection.takes(string(md.Parent().FullName()), id, append(derived.forms(), name, MCPName(name), cmp.Or(theirs.mcpName, name))...) {
		b.unselect(id)
		return nil, false, nil
	}
	if err := b.rules.checkOptions(declared); err != nil {
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
		Hidden: declared.GetHidden(), isUnmarked: theirs.isDenied,
	}
	if declared.GetName() == "" {
		t.Alias = derived.alias
		t.MCPName = cmp.Or(theirs.mcpName, t.MCPName)
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
	if err := b.operation(t, options.raw); err != nil {
		return nil, false, err
	}
	if t.RequestID, err = requestIDOf(md, declared.GetRequestId()); err != nil {
		b.problems = append(b.problems, Problem{id, "option (outrigger.v1.tool) or overlay: request_id: " + err.Error()})
		return nil, false, nil //nolint:nilerr // as above
	}
	isMarked = isMarked || t.RequestID != nil // its schema is not that of its message alone
	if words := b.words(t, t.Method.Service, id, names); len(words) > 0 || t.RequestID != nil {
		b.bind.showWords(t, header, words)
	}
	t.Classes = b.classes(t, t.Method.Service, id, names)
	noted := b.noted(t)
	if b.bind.showResponses(t, noted.Responses) {
		isMarked = true // its schema is not that of its message alone
	}
	if isDeclared, err := b.declare(t, schemas); err != nil || !isDeclared {
		return nil, false, err
	}
	b.describe(t, options, declared, noted)
	isByMethod, err := b.preview(t, declared.GetPreview())
	if err != nil {
		b.problems = append(b.problems, Problem{id, "option (outrigger.v1.tool) or overlay: preview: " + err.Error()})
		return nil, false, nil //nolint:nilerr // as above
	}
	isMarked = isMarked || isByMethod // its tool is made with it
	if t.Operation != nil {
		isMarked = true // it depends on files that the method's file need not import
		t.settleOperation()
	}
	b.resource(t, options.raw, schemas.Resource)
	b.watch(t, declared.GetWatch())
	return t, isMarked, nil
}

// overlayUnused is the warning about an entry of the overlay for no method.
const overlayUnused = "it matches no method"

// finish checks the tools together and freezes them.
func (b *builder) finish() (*Catalog, error) {
	b.tellMissing()
	for _, e := range b.overlay {
		if !e.wasUsed {
			b.warn("overlay entry "+e.Match, overlayUnused)
		}
	}
	resources := b.readable()
	b.settleRivalNames()
	collisions, byName := b.settleNames()
	b.reserveNames()
	if len(collisions)+len(b.problems) > 0 {
		return nil, b.fault(collisions, b.problems...)
	}
	visible := 0
	for _, t := range slices.Concat(b.tools, b.typed, b.operations) {
		if t.Method.Backend != b.backend { // that of a tool which is kept is in use
			t.Method.Backend = b.backend
		}
		if t.Timeout == 0 {
			t.Timeout = b.timeout
		}
		if t.Preview != nil && t.Preview.Tool != nil {
			t.Preview.Tool.Timeout = t.Timeout
		}
	}
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
	c.backend = b.backend
	c.leftOut, c.unselected = b.leftOut, b.unselected
	c.passedOver = slices.DeleteFunc(slices.Clone(b.passedOver), source.IsInfrastructure)
	b.tell(c.own.services)
	c.isStrict = b.bind.profile == schema.ProfileStrict
	return c, nil
}

// reserveNames notes the tools that have a name of a tool of the sidecar's own.
func (b *builder) reserveNames() {
	for _, t := range b.tools {
		if why := b.reserved.name(t.names()); why != "" && !t.Hidden {
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

// maxLeftOut is how many of the methods that no glob took are known by name.
const maxLeftOut = 100

// unselect notes a method that no glob took.
func (b *builder) unselect(id string) {
	if b.unselected++; len(b.leftOut) < maxLeftOut {
		b.leftOut = append(b.leftOut, id)
	}
}

func (b *builder) warn(subject, text string) {
	b.warnings = append(b.warnings, source.Warning{Subject: subject, Text: text})
}

// methodName is "pkg.Service/Method".
func methodName(md protoreflect.MethodDescriptor) string {
	return string(md.Parent().FullName()) + "/" + string(md.Name())
}

// binder gives tools their schemas and transcoders. Many methods share a message, so each is compiled once per build.
type binder struct {
	types      *Types
	profile    schema.Profile
	schemas    *schema.Options
	transcoder *transcode.Transcoder
	digests    *schemaDigests
	room       *schema.Room
	inputs     map[protoreflect.FullName]*schema.Lazy
	outputs    map[protoreflect.FullName]*schema.Lazy
	streams    map[protoreflect.FullName]*schema.Lazy
	// taken are the inputs of methods that take a stream, by their digests.
	taken    map[source.Digest]*schema.Lazy
	messages map[protoreflect.FullName]compiled
}

// httpBody is the message that carries any document with its media type.
const httpBody protoreflect.FullName = "google.api.HttpBody"

// keptSchemas is how much text of schemas that were asked for a catalog keeps: the lists of about 2,000 tools.
const keptSchemas = 16 << 20

// compiled is a message's transcoder, or why it has none.
type compiled struct {
	message *transcode.Message
	err     error
}

func newBinder(linked *linker, types *Types, o BuildOptions) *binder {
	return &binder{
		types: types, profile: o.Profile, schemas: &schema.Options{Profile: o.Profile, Extensions: types, Needs: new(schema.Needs)},
		transcoder: transcode.New(transcode.Options{
			IsSecret: redact.IsSecret,
			Resolver: types, QuotedObjects: o.Profile == schema.ProfileStrict,
			MaxDepth: o.MaxDepth,
		}),
		digests:  newSchemaDigests(linked),
		room:     schema.NewRoom(keptSchemas),
		inputs:   map[protoreflect.FullName]*schema.Lazy{},
		outputs:  map[protoreflect.FullName]*schema.Lazy{},
		streams:  map[protoreflect.FullName]*schema.Lazy{},
		taken:    map[source.Digest]*schema.Lazy{},
		messages: map[protoreflect.FullName]compiled{},
	}
}

// bind fills in the tool's schemas, transcoders and fingerprint. The header is that of a stream of requests; nil for none.
func (b *binder) bind(t *Tool, header protoreflect.FieldDescriptor) error {
	in, out := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	if in.IsPlaceholder() || out.IsPlaceholder() {
		return errors.New("its request or response message is not in the descriptors")
	}
	var err error
	t.Output = b.schema(out, schema.Output)
	if t.In, err = b.message(in); err != nil {
		return fmt.Errorf("transcoder of %s: %w", in.FullName(), err)
	}
	if t.Out, err = b.message(out); err != nil {
		return fmt.Errorf("transcoder of %s: %w", out.FullName(), err)
	}
	if t.Method.ClientStreaming {
		t.Stream, t.Input = b.transcoder.Stream(t.In, header), b.stream(in, header, b.streamDigest(in, header))
	} else {
		t.Input = b.schema(in, schema.Input)
	}
	t.HTTPBody = out.FullName() == httpBody && !(t.Method.ClientStreaming && t.Streams())
	if t.Streams() && !t.Method.ClientStreaming {
		t.BytesField = onlyBytes(out)
	}
	switch {
	case t.IsDocument():
		t.Output = schema.Fixed(&schema.Schema{})
	case t.Streams():
		t.Output = b.gathered(out, t.Output)
	default:
		t.OutputNotObject = t.Output.Wrapped
	}
	t.print = newFingerprint(t.Input, t.Output)
	return nil
}

// showResponses gives a tool its own output schema, with examples of the RPC's responses. It reports whether it did: only
// a tool whose results are the responses shows them.
func (b *binder) showResponses(t *Tool, examples []string) bool {
	if len(examples) == 0 || t.Operation != nil || t.Streams() || t.IsDocument() || b.profile == schema.ProfileStrict {
		return false
	}
	opts := *b.schemas
	opts.Examples = examples
	t.Output = schema.Defer(t.Method.Descriptor.Output(), schema.Output, &opts, extended(t.Output.Digest(), examples), b.room)
	t.print = newFingerprint(t.Input, t.Output)
	return true
}

// showWords gives a tool its own input schema, with descriptions of fields. The header is that of a stream of requests;
// nil for none.
func (b *binder) showWords(t *Tool, header protoreflect.FieldDescriptor, words map[protoreflect.FullName]string) {
	opts := *b.schemas
	opts.Words = words
	var texts []string
	if t.RequestID != nil {
		opts.Filled = t.RequestID.FullName()
		texts = append(texts, "filled", string(opts.Filled))
	}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		texts = append(texts, string(name), words[name])
	}
	in, digest := t.Method.Descriptor.Input(), extended(t.Input.Digest(), texts)
	if t.TakesStream() {
		t.Input = schema.DeferStream(in, schema.Stream{Header: header}, &opts, digest, b.room)
	} else {
		t.Input = schema.Defer(in, schema.Input, &opts, digest, b.room)
	}
	t.Words, t.print = words, newFingerprint(t.Input, t.Output)
}

// extended is the digest of what a schema with the digest becomes with more texts.
func extended(digest source.Digest, texts []string) source.Digest {
	hash := sha256.New()
	_, _ = hash.Write(digest[:])
	for _, text := range texts {
		_, _ = hash.Write(append(binary.AppendUvarint(nil, uint64(len(text))), text...))
	}
	return source.Digest(hash.Sum(nil))
}

// onlyBytes returns the number of the only field of a message if that is a single one of
// type bytes, else 0. Streams of such messages are documents in parts. A field that is
// marked as secret stays a field: records know by it what to leave out.
func onlyBytes(md protoreflect.MessageDescriptor) protowire.Number {
	if md.Fields().Len() != 1 {
		return 0
	}
	field := md.Fields().Get(0)
	if field.Kind() != protoreflect.BytesKind || field.IsList() || redact.IsSecret(field) {
		return 0
	}
	return field.Number()
}

// cached is a value that is made when it is first asked for.
func cached[K comparable, V any](cache map[K]V, key K, fresh func() V) V {
	known, ok := cache[key]
	if !ok {
		known = fresh()
		cache[key] = known
	}
	return known
}

func (b *binder) cache(dir schema.Direction) map[protoreflect.FullName]*schema.Lazy {
	if dir == schema.Input {
		return b.inputs
	}
	return b.outputs
}

func (b *binder) schema(md protoreflect.MessageDescriptor, dir schema.Direction) *schema.Lazy {
	return cached(b.cache(dir), md.FullName(), func() *schema.Lazy {
		return schema.Defer(md, dir, b.schemas, b.digests.of(md, byte(dir), byte(b.profile)), b.room)
	})
}

// schemaAs is schema where the digest is known.
func (b *binder) schemaAs(md protoreflect.MessageDescriptor, dir schema.Direction, digest source.Digest) *schema.Lazy {
	return cached(b.cache(dir), md.FullName(), func() *schema.Lazy { return schema.Defer(md, dir, b.schemas, digest, b.room) })
}

// gathered is the schema of a stream of messages.
func (b *binder) gathered(md protoreflect.MessageDescriptor, one *schema.Lazy) *schema.Lazy {
	return cached(b.streams, md.FullName(), func() *schema.Lazy {
		return gathered(one, md, b.digests.of(md, streamed, byte(b.profile)), b.room)
	})
}

// gatheredAs is gathered where the digest is known.
func (b *binder) gatheredAs(md protoreflect.MessageDescriptor, one *schema.Lazy, digest source.Digest) *schema.Lazy {
	return cached(b.streams, md.FullName(), func() *schema.Lazy { return gathered(one, md, digest, b.room) })
}

// stream is the schema of the arguments with a stream of messages.
func (b *binder) stream(md protoreflect.MessageDescriptor, header protoreflect.FieldDescriptor, digest source.Digest) *schema.Lazy {
	return cached(b.taken, digest, func() *schema.Lazy {
		return schema.DeferStream(md, schema.Stream{Header: header}, b.schemas, digest, b.room)
	})
}

// streamDigest is that of a stream's schema.
func (b *binder) streamDigest(md protoreflect.MessageDescriptor, header protoreflect.FieldDescriptor) source.Digest {
	with := []byte{streamTaken, byte(b.profile)}
	if header != nil {
		with = append(with, header.FullName()...)
	}
	return b.digests.of(md, append(with, 0)...)
}

// streamed represents the direction of a stream's schema in digests.
const streamed = 2

// streamTaken represents the direction of a stream of requests.
const streamTaken = 3

func (b *binder) message(md protoreflect.MessageDescriptor) (*transcode.Message, error) {
	return b.compiled(md, func() (*transcode.Message, error) { return b.transcoder.Compile(md) })
}

// messageAgain is the transcoder of a message that an earlier build compiled.
func (b *binder) messageAgain(md protoreflect.MessageDescriptor, old *transcode.Message) (*transcode.Message, error) {
	return b.compiled(md, func() (*transcode.Message, error) { return b.transcoder.Again(old), nil })
}

func (b *binder) compiled(md protoreflect.MessageDescriptor, compile func() (*transcode.Message, error)) (*transcode.Message, error) {
	got := cached(b.messages, md.FullName(), func() (out compiled) {
		out.message, out.err = compile()
		return out
	})
	return got.message, got.err
}

// again gives a tool that was kept schemas and transcoders of this build.
func (b *binder) again(t *Tool) error {
	in, out := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	input, output := t.Input.Digest(), t.Output.Digest()
	var err error
	if t.In, err = b.messageAgain(in, t.In); err != nil {
		return err
	}
	if t.TakesStream() {
		header := t.Stream.Header()
		t.Stream, t.Input = b.transcoder.Stream(t.In, header), b.stream(in, header, input)
	} else {
		t.Input = b.schemaAs(in, schema.Input, input)
	}
	if t.Out, err = b.messageAgain(out, t.Out); err != nil {
		return err
	}
	switch {
	case t.IsDocument():
		// Its schema holds nothing.
	case t.Streams():
		t.Output = b.gatheredAs(out, b.schema(out, schema.Output), output)
	default:
		t.Output = b.schemaAs(out, schema.Output, output)
	}
	t.print = newFingerprint(t.Input, t.Output)
	return nil
}

// contractRules checks messages of the contract, and options, by the rules that their .proto files state. Compiling a
// message takes milliseconds, so that is left until there is something to check. The zero value is ready for use.
type contractRules struct {
	mu       sync.Mutex
	compiled map[protoreflect.FullName]*transcode.Message
}

// check finds everything that is wrong with a message; the text is on one line.
func (r *contractRules) check(m proto.Message) error {
	broken, err := r.violations(m)
	if err != nil || len(broken) == 0 {
		return err
	}
	for i := range broken {
		broken[i].Path = strings.TrimPrefix(broken[i].Path, "/")
	}
	return errors.New(faultText(broken))
}

// checkOptions is check for the options of a tool, most of which are empty. It lists all that is wrong.
func (r *contractRules) checkOptions(o *configv1.ToolOptions) error {
	if proto.Size(o) == 0 {
		return nil
	}
	broken, err := r.violations(o)
	if err != nil || len(broken) == 0 {
		return err
	}
	var faults []string
	for _, v := range broken {
		faults = append(faults, strings.TrimPrefix(strings.TrimPrefix(v.Path, "/")+": "+shown.Clip(v.Message), ": "))
	}
	return errors.New(strings.Join(faults, "; "))
}

// violations are the rules that a message breaks, with the paths of its fields.
func (r *contractRules) violations(m proto.Message) ([]schema.Violation, error) {
	message, err := r.compile(m.ProtoReflect().Descriptor())
	if err != nil {
		return nil, err
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	err = message.CheckWire(context.Background(), raw)
	if broken, ok := errors.AsType[*transcode.InputError](err); ok {
		return broken.Violations, nil
	}
	return nil, err
}

func (r *contractRules) compile(md protoreflect.MessageDescriptor) (*transcode.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.compiled[md.FullName()]; known != nil {
		return known, nil
	}
	message, err := transcode.Compile(md, transcode.Options{})
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	if r.compiled == nil {
		r.compiled = map[protoreflect.FullName]*transcode.Message{}
	}
	r.compiled[md.FullName()] = message
	return message, nil
}

// Limits bound what a catalog may hold. The Limits of package source bound the cost of a source. The zero value means
// the defaults.
type Limits struct {
	// MaxTools is the maximum number of tools in a catalog. The default is [defaults.MaxTools]: all of googleapis has 11,345.
	// More is an error, because a truncated list would hide tools silently.
	MaxTools int
	// MaxNameBytes is the maximum length of a canonical name. The default is 128, the limit of outrigger.v1.Tool.name.
	// A method with a longer name is left out with a warning.
	MaxNameBytes int
	// MaxTitleRunes is the maximum length of a title. The default is 120, one line of a client's list. Longer ones are cut.
	MaxTitleRunes int
	// MaxDescriptionBytes is the maximum length of a description. The default is 8,192, more than a model benefits from.
	// Longer ones are cut with a warning.
	MaxDescriptionBytes int
	// MaxRegistrations is the maximum number of registered tools. The default is 1,000, the catalog size for which
	// registration is measured.
	MaxRegistrations int
	// MaxRegisteredBytes is the maximum total size of all registrations. The default is 16 MiB, 16 KiB each: a
	// larger schema costs a model more context than the tool is worth.
	MaxRegisteredBytes int
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxTools, defaults.MaxTools)
	defaults.Fill(&l.MaxNameBytes, 128)
	defaults.Fill(&l.MaxTitleRunes, 120)
	defaults.Fill(&l.MaxDescriptionBytes, 8_192)
	defaults.Fill(&l.MaxRegistrations, 1_000)
	defaults.Fill(&l.MaxRegisteredBytes, 16<<20)
	return l
}

// Override is one entry of the overlay: options for tools whose service cannot be changed.
type Override struct {
	// Match is a glob over methods and native tools, as in Selection. A native tool keeps its schemas and is never a source
	// of resources.
	Match string
	// Options override the method's own, member by member. A list replaces a list.
	Options *configv1.ToolOptions
	// InputSchema and OutputSchema are JSON Schemas to show instead of the derived ones. Arguments and results must
	// satisfy them as well. Nil keeps the derived ones. A schema fits one tool, so Match should name one method.
	InputSchema, OutputSchema json.RawMessage
	// Properties describe arguments, by their paths (schema.InputField). They take the place of comments and annotations, in
	// what is shown alone. A path has to lead to a field of at least one of the methods that match.
	Properties map[string]string
	// VisibleTo are the classes of fields of the result, by their paths in it. A path has to lead to a field of at least one of the
	// methods that match.
	VisibleTo map[string]string
	// Resource makes the method a source of resources. Its members override those of the method's own option.
	Resource *configv1.ResourceOptions
}

// isForRPC reports whether an entry says what only a tool of an RPC can have.
func (o Override) isForRPC() bool {
	return o.InputSchema != nil || o.OutputSchema != nil || o.Resource != nil || o.Properties != nil
}

// httpRuleField is the number of google.api.http among the method options; the numbers of its verbs follow.
const (
	httpRuleField = 72295728
	httpGet       = 2
	httpPut       = 3
	httpDelete    = 5
)

// methodOptions is what a method's own options say, read from their bytes: descriptors that were built at run time hold
// extensions as unknown fields, and those that are linked in as typed ones; their bytes are the same.
type methodOptions struct {
	tool        *configv1.ToolOptions
	idempotency Idempotency
	deprecated  bool
	// httpVerb is the field number of the verb in google.api.http, 0 where there is none.
	httpVerb protowire.Number
	raw      []byte // all of them
}

// readMethodOptions reads a method's options. The number of the tool option is from the range that anyone may use, so
// it is only taken for ours (hasOurs) where the descriptors define it under our name. What is ours and undecodable is
// an error, since it may have said that the tool is destructive.
func readMethodOptions(md protoreflect.MethodDescriptor, hasOurs bool) (methodOptions, error) {
	out := methodOptions{tool: &configv1.ToolOptions{}}
	options, ok := md.Options().(*descriptorpb.MethodOptions)
	if !ok || options == nil {
		return out, nil
	}
	out.deprecated = options.GetDeprecated() || isServiceDeprecated(md)
	switch options.GetIdempotencyLevel() {
	case descriptorpb.MethodOptions_NO_SIDE_EFFECTS:
		out.idempotency = NoSideEffects
	case descriptorpb.MethodOptions_IDEMPOTENT:
		out.idempotency = Idempotent
	case descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN:
	}
	raw, err := proto.Marshal(options)
	if err != nil {
		return out, fmt.Errorf("read options: %w", err)
	}
	out.raw = raw
	toolField := optionsv1.E_Tool.TypeDescriptor().Number()
	err = wire.EachField(raw, func(num protowire.Number, body []byte) error {
		switch {
		case num == toolField && hasOurs:
			// An option that is set in parts arrives in parts.
			return proto.UnmarshalOptions{Merge: true, Resolver: (*protoregistry.Types)(nil)}.Unmarshal(body, out.tool)
		case num == httpRuleField:
			return wire.EachField(body, func(verb protowire.Number, _ []byte) error {
				if verb == httpGet || verb == httpPut || verb == httpDelete {
					out.httpVerb = verb
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("read option (outrigger.v1.tool): %w", err)
	}
	return out, nil
}

func isServiceDeprecated(md protoreflect.MethodDescriptor) bool {
	options, ok := md.Parent().Options().(*descriptorpb.ServiceOptions)
	return ok && options.GetDeprecated()
}

// definesOption reports whether the files define an option of methods under a name and a number.
func definesOption(files *protoregistry.Files, name protoreflect.FullName, number protoreflect.FieldNumber) bool {
	d, _ := files.FindDescriptorByName(name)
	field, ok := d.(protoreflect.FieldDescriptor)
	return ok && field.IsExtension() && field.Number() == number && field.ContainingMessage().FullName() == "google.protobuf.MethodOptions"
}

func definesOurs(linked *linker, option protoreflect.ExtensionType) bool {
	return definesOption(linked.registry, option.TypeDescriptor().FullName(), option.TypeDescriptor().Number())
}

// override is base with the members that over sets; either may be nil.
func override[M proto.Message](base, over M) M {
	if !over.ProtoReflect().IsValid() {
		return base
	}
	if !base.ProtoReflect().IsValid() {
		return over
	}
	out := proto.CloneOf(base)
	proto.CloneOf(over).ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(fd, v)
		return true
	})
	return out
}

// Selection uses globs to decide which methods become tools. The zero value (and nil) selects every method of every
// service except infrastructure.
//
// A glob has one of three forms, distinguished by its shape:
//
//   - With a slash, it matches a method: "shop.v1.Orders/Get*", "*.Orders/*", "/shop.v1.Orders/Get". A leading slash is
//     ignored, so that an RPC's path can be pasted.
//   - Without a slash, it is compared with the service's full name ("shop.v1.*", "shop.v1.Orders") and with the tool's
//     names in both forms ("orders.get_*", "orders_get_*"). A match with any of them selects the method.
//
// A native tool is matched like a method. Its service is the first part of its canonical name, and its method is its
// declared name ("weather_desk/getForecast", "weather_desk").
//
// "*" matches any run of characters except "/", so it spans the dots of a package. "?" matches one such character,
// "[a-z]" matches one of a class, and a backslash makes the next character literal. Matching is case-sensitive.
//
// A method is a tool if an include glob matches it, or there are none, and no exclude glob does. Exclude wins.
type Selection struct {
	include, exclude []glob
}

// glob is one compiled pattern.
type glob struct {
	pattern string
	ofMethod,
	isLiteral bool
}

// NewSelection compiles the globs. The error joins one error for every malformed glob.
func NewSelection(include, exclude []string) (*Selection, error) {
	in, errIn := compileGlobs("include", include)
	ex, errEx := compileGlobs("exclude", exclude)
	if err := errors.Join(errIn, errEx); err != nil {
		return nil, err
	}
	return &Selection{include: in, exclude: ex}, nil
}

func compileGlobs(flag string, patterns []string) ([]glob, error) {
	var errs []error
	out := make([]glob, 0, len(patterns))
	for _, p := range patterns {
		pattern := strings.TrimPrefix(strings.TrimSpace(p), "/")
		_, err := path.Match(pattern, "")
		switch {
		case pattern == "":
			errs = append(errs, fmt.Errorf("%s glob %q is empty", flag, p))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s glob %q is malformed: a class or an escape does not end", flag, p))
		case strings.Count(pattern, "/") > 1:
			errs = append(errs, fmt.Errorf("%s glob %q has more than one slash: a method is pkg.Service/Method", flag, p))
		default:
			service, _, ofMethod := strings.Cut(pattern, "/")
			out = append(out, glob{
				pattern: pattern, ofMethod: ofMethod,
				isLiteral: !strings.ContainsAny(service, `*?[\`),
			})
		}
	}
	return out, errors.Join(errs...)
}

// matches compares the glob with a method, given by its service, "pkg.Service/Method" and names. Among the names of a
// native tool may be those of the RPC behind it, which have a slash of their own.
func (g glob) matches(service, method string, names ...string) bool {
	subject := service
	if g.ofMethod {
		subject = method
	}
	return matchGlob(g.pattern, subject) || slices.ContainsFunc(names, func(n string) bool { return matchGlob(g.pattern, n) })
}

// matchGlob is path.Match for a pattern that was found well-formed.
func matchGlob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// takes reports whether the method becomes a tool. A method's names may be more than one: the derived and the declared.
func (s *Selection) takes(service, method string, names ...string) bool {
	if s == nil {
		return true
	}
	isMatch := func(g glob) bool { return g.matches(service, method, names...) }
	return !slices.ContainsFunc(s.exclude, isMatch) && (len(s.include) == 0 || slices.ContainsFunc(s.include, isMatch))
}

// omits reports whether an exclude glob takes a method away, whatever is included.
func (s *Selection) omits(service, method string, names ...string) bool {
	return s != nil && slices.ContainsFunc(s.exclude, func(g glob) bool { return g.matches(service, method, names...) })
}

// namesService reports whether an include glob names the service without a wildcard, which is how a service that is
// left out by default comes in.
func (s *Selection) namesService(service string) bool {
	return s != nil && slices.ContainsFunc(s.include, func(g glob) bool {
		of, _, _ := strings.Cut(g.pattern, "/")
		return g.isLiteral && of == service
	})
}

// Skips reports whether no method of the service can become a tool, so that its descriptors need not be requested.
// This is certain if the service is infrastructure that was not named, if an exclude glob covers all of it, or if no
// include glob can match. A glob that could be a tool's name could match any service, because names can be declared.
func (s *Selection) Skips(service string) bool {
	if source.IsInfrastructure(service) && !s.namesService(service) {
		return true
	}
	if s == nil {
		return false
	}
	mayMatch := func(g glob) bool {
		of, _, _ := strings.Cut(g.pattern, "/")
		return matchGlob(of, service) || !g.ofMethod && !hasUpper(g.pattern)
	}
	if len(s.include) > 0 && !slices.ContainsFunc(s.include, mayMatch) {
		return true
	}
	return slices.ContainsFunc(s.exclude, func(g glob) bool {
		of, method, ofMethod := strings.Cut(g.pattern, "/")
		return matchGlob(of, service) && (!ofMethod || method == "*")
	})
}

// hasUpper reports whether there is an upper-case letter, which no tool's name has.
func hasUpper(pattern string) bool { return strings.IndexFunc(pattern, unicode.IsUpper) >= 0 }

// overlayEntry is an override with its glob compiled.
type overlayEntry struct {
	Override
	glob    glob
	wasUsed bool
	// found are the paths of Properties and VisibleTo that led to a field, and missing says of others why not.
	found   map[string]bool
	missing map[string]string
}

// note keeps whether a path of a member of the entry led to a field.
func (e *overlayEntry) note(member, path string, err error) {
	key := member + ": " + path
	if err != nil {
		if e.missing == nil {
			e.missing = map[string]string{}
		}
		e.missing[key] = cmp.Or(e.missing[key], err.Error())
		return
	}
	if e.found == nil {
		e.found = map[string]bool{}
	}
	e.found[key] = true
}

// compileOverlay compiles the globs; a malformed one is a problem.
func compileOverlay(overlay []Override) (out []overlayEntry, problems []Problem) {
	for _, o := range overlay {
		globs, err := compileGlobs("overlay", []string{o.Match})
		if err != nil {
			problems = append(problems, Problem{"overlay entry " + o.Match, oneLine(err)})
			continue
		}
		out = append(out, overlayEntry{Override: o, glob: globs[0]})
	}
	return out, problems
}

// overlayIndex finds the entries that may match a method. Most entries of a large overlay name one method, so that asking
// each of them about each method would cost the square of both.
type overlayIndex struct {
	named    map[string][]int // by the one text that the entry matches
	patterns []int            // entries that match more than one text
}

// globCharacters are those by which a pattern matches more than one text.
const globCharacters = `*?[\`

func newOverlayIndex(overlay []overlayEntry) overlayIndex {
	index := overlayIndex{named: map[string][]int{}}
	for i, e := range overlay {
		if strings.ContainsAny(e.glob.pattern, globCharacters) {
			index.patterns = append(index.patterns, i)
		} else {
			index.named[e.glob.pattern] = append(index.named[e.glob.pattern], i)
		}
	}
	return index
}

// candidates lists the entries to ask, in their order, each once.
func (x overlayIndex) candidates(service, method string, names []string) []int {
	out := slices.Concat(x.patterns, x.named[service], x.named[method])
	for _, n := range names {
		out = append(out, x.named[n]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// overlaid is what a method declares, as the overlay leaves it, and what else the overlay has for it. The method
// is given as globs know it, with the names that it has before the overlay, so that an entry may change the name without
// losing its method.
func (b *builder) overlaid(
	service, method string, names []string, declared *configv1.ToolOptions,
) (_ *configv1.ToolOptions, _ Override, isOverlaid bool) {
	var schemas Override
	for _, i := range b.overlayIndex.candidates(service, method, names) {
		e := &b.overlay[i]
		if !e.glob.matches(service, method, names...) {
			continue
		}
		e.wasUsed, isOverlaid = true, true
		declared = override(declared, e.Options)
		if e.Properties != nil && !strings.ContainsAny(e.glob.pattern, globCharacters) {
			schemas.Properties = e.Properties // of an entry for this method alone
		}
		schemas.Resource = override(schemas.Resource, e.Resource)
		if e.InputSchema != nil {
			schemas.Match, schemas.InputSchema = e.Match, e.InputSchema
		}
		if e.OutputSchema != nil {
			schemas.Match, schemas.OutputSchema = e.Match, e.OutputSchema
		}
	}
	return declared, schemas, isOverlaid
}

// words are the descriptions that the overlay has for the arguments of a tool, by full names of fields; nil for none. The
// method is given as to overlaid. Where two entries describe a field, the later one wins.
func (b *builder) words(t *Tool, service, method string, names []string) map[protoreflect.FullName]string {
	var out map[protoreflect.FullName]string
	for _, i := range b.overlayIndex.candidates(service, method, names) {
		e := &b.overlay[i]
		if len(e.Properties) == 0 || !e.glob.matches(service, method, names...) {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(e.Properties)) {
			name, err := t.argument(path)
			if e.note("properties", path, err); err != nil {
				continue
			}
			if out == nil {
				out = map[protoreflect.FullName]string{}
			}
			out[name] = shown.Clean(e.Properties[path])
		}
	}
	return out
}

// classes are those that the overlay gives to fields of the results of a tool; nil for none. The tool is given as to overlaid. Where
// two entries give a class to a field, the later one wins.
func (b *builder) classes(t *Tool, service, id string, names []string) map[string]string {
	var out map[string]string
	for _, i := range b.overlayIndex.candidates(service, id, names) {
		e := &b.overlay[i]
		if len(e.VisibleTo) == 0 || !e.glob.matches(service, id, names...) {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(e.VisibleTo)) {
			plain, err := t.resultPath(path)
			if e.note("visible_to", path, err); err != nil {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[plain] = e.VisibleTo[path]
		}
	}
	return out
}

// resultPath is a path in the results of a tool with the names of the descriptor. That of a stream may begin with "items". What the
// data of a native tool has, only its backend knows.
func (t *Tool) resultPath(path string) (string, error) {
	if t.Native {
		return path, nil
	}
	md := t.Method.Descriptor.Output()
	if op := t.Operation; op != nil && op.Response != nil && op.Response.Out != nil {
		md = op.Response.Out.Descriptor()
	}
	if rest, ok := strings.CutPrefix(path, schema.ItemsMember+"."); ok && t.Streams() {
		path = rest
	}
	names := strings.Split(path, ".")
	for i, name := range names {
		if md == nil || schema.IsWellKnown(md) {
			return "", fmt.Errorf("%s has no members", strings.Join(names[:i], "."))
		}
		fd := fieldNamed(md, name)
		if fd == nil {
			return "", fmt.Errorf("%s has no field %q", md.FullName(), shown.Clean(name))
		}
		if names[i] = string(fd.Name()); fd.IsMap() {
			fd = fd.MapValue()
		}
		md = fd.Message()
	}
	return strings.Join(names, "."), nil
}

// fieldNamed returns the field with a name of the descriptor, or of JSON; nil if there is none.
func fieldNamed(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByName(protoreflect.Name(name)); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(name)
}

// argument is the field that a path of the arguments leads to. Those of a tool that takes a stream are below "items", and
// "header" is a field itself.
func (t *Tool) argument(path string) (protoreflect.FullName, error) {
	md := t.Method.Descriptor.Input()
	if !t.TakesStream() {
		return schema.InputField(md, path)
	}
	first, rest, _ := strings.Cut(path, ".")
	header := t.Stream.Header()
	switch {
	case first == schema.ItemsMember && rest != "":
		return schema.InputField(md, rest)
	case first == schema.HeaderMember && header != nil && rest == "":
		return header.FullName(), nil
	case first == schema.HeaderMember && header != nil && header.Message() != nil:
		return schema.InputField(header.Message(), rest)
	}
	return "", fmt.Errorf("the arguments are a stream; begin with %q: items.%s", schema.ItemsMember+".", path)
}

// tellMissing makes problems of the paths that lead nowhere in all methods of their entry.
func (b *builder) tellMissing() {
	for _, e := range b.overlay {
		for _, path := range slices.Sorted(maps.Keys(e.missing)) {
			if !e.found[path] {
				b.problems = append(b.problems, Problem{"overlay entry " + e.Match, path + ": " + e.missing[path]})
			}
		}
	}
}

// declare gives the tool the schemas of the overlay. False means that a problem was noted.
func (b *builder) declare(t *Tool, schemas Override) (bool, error) {
	var compiled [2]declaration
	isFine := true
	for i, declared := range [...]struct {
		member string
		raw    json.RawMessage
	}{{"input_schema", schemas.InputSchema}, {"output_schema", schemas.OutputSchema}} {
		if declared.raw == nil {
			continue
		}
		var faults []schema.Violation
		compiled[i], faults = compileDeclared(declared.raw)
		for _, f := range faults {
			b.problems = append(b.problems, Problem{"overlay entry " + schemas.Match, declared.member + f.Path + ": " + f.Message})
			isFine = false
		}
	}
	if t.Words != nil && schemas.InputSchema != nil {
		b.problems = append(b.problems, Problem{"overlay entry " + schemas.Match, "properties: the tool has its own input_schema; describe them there"})
		isFine = false
	}
	if t.IsDocument() && schemas.OutputSchema != nil {
		b.problems = append(b.problems, Problem{"overlay entry " + schemas.Match, "output_schema: " + noSchemaForBody})
		isFine = false
	}
	if !isFine {
		return false, nil
	}
	return true, t.declare(compiled[0], compiled[1], b.types)
}

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

// kept is what one build keeps for the next one by the same plan, so that the next one builds again only what has changed.
// A file is kept with its descriptors while its bytes and all that it imports are the same, and so are its tools. It holds
// little that the catalog does not hold anyway.
type kept struct {
	*keptFiles

	catalog *Catalog
	// loads are those of the sources, by index, with all files among Same; nil where a source has to load again.
	loads  []*source.Loaded
	world  world
	claims map[string]*claims
}

// world is what every tool depends on beside the files that its method is made of. Tools are kept while it is the same.
type world struct {
	hasToolOption, hasResourceOption bool
	// rivals are those whose annotations are defined, and read.
	rivals            schema.Rivals
	rules, extensions source.Digest
}

// linkage is what the linker takes over; nil for nothing.
func (k *kept) linkage() *keptFiles {
	if k == nil {
		return nil
	}
	return k.keptFiles
}

// keep gathers what the next build can use.
func (b *builder) keep(c *Catalog, loads []*source.Loaded) *kept {
	k := &kept{keptFiles: b.linked.kept(), catalog: c, world: b.world, claims: b.claims}
	for _, load := range loads {
		k.loads = append(k.loads, thin(load))
		if load.Revision != nil {
			load.Revision.Needed = k.missing(load)
		}
	}
	return k
}

// thin is a load with all its files among Same; nil where it holds more than files.
func thin(load *source.Loaded) *source.Loaded {
	if load.Native != nil || load.Revision == nil {
		return nil
	}
	out := *load
	out.Files, out.Same = nil, filePaths(load)
	return &out
}

// filePaths are the paths of all files of a load.
func filePaths(load *source.Loaded) []string {
	out := slices.Clone(load.Same)
	for _, f := range load.Files {
		out = append(out, f.GetName())
	}
	return out
}

// missing are the files of a load that did not link.
func (k *kept) missing(load *source.Loaded) map[string]bool {
	var out map[string]bool
	for _, path := range filePaths(load) {
		if k.files[path] == nil {
			if out == nil {
				out = map[string]bool{}
			}
			out[path] = true
		}
	}
	return out
}

// reuse is the tool of a method as the last catalog has it, bound to the types of this one, where nothing has changed that
// it is made of. False leaves it to be made.
func (b *builder) reuse(md protoreflect.MethodDescriptor, id, source string, names derivedNames) (*Tool, bool, error) {
	if b.before == nil || !b.linked.isKept(md.ParentFile().Path()) {
		return nil, false, nil
	}
	old := b.before.catalog.derived["/"+id]
	if old == nil || !old.isPlain || old.Name != names.name || old.alias != names.alias || old.Method.Source != source {
		return nil, false, nil
	}
	t := *old
	t.Alias = names.alias
	return &t, true, b.bind.again(&t)
}

// requestIDOf finds the field with the id of a request: the one that is declared, or the one that AIP-155 describes; nil for none.
func requestIDOf(md protoreflect.MethodDescriptor, declared string) (protoreflect.FieldDescriptor, error) {
	field := md.Input().Fields().ByName(protoreflect.Name(cmp.Or(declared, requestID)))
	isString := field != nil && field.Kind() == protoreflect.StringKind && !field.IsList()
	switch {
	case declared == "":
		if !isString || md.IsStreamingClient() {
			return nil, nil //nolint:nilnil // it has none
		}
		if said, _ := schema.AnnotationsOfField(field); said.Format != uuidFormat {
			return nil, nil //nolint:nilnil // it has none
		}
		return field, nil
	case md.IsStreamingClient():
		return nil, errors.New("the RPC takes a stream of requests; remove it")
	case field == nil:
		return nil, fmt.Errorf("%s has no field %s; name one of its fields of type string", md.Input().FullName(), declared)
	case !isString:
		return nil, fmt.Errorf("%s is no single string; name a field of type string", field.FullName())
	}
	return field, nil
}

// uuidFormat is the word of package schema for google.api.FieldInfo.UUID4.
const uuidFormat = "uuid"

// preview finds out how calls of a tool are previewed: as is declared, or by the field of AIP-163. It reports whether a method does.
func (b *builder) preview(t *Tool, declared *configv1.ToolPreview) (isByMethod bool, err error) {
	md := t.Method.Descriptor
	isUnary := !md.IsStreamingClient() && !md.IsStreamingServer()
	switch {
	case declared == nil:
		field := md.Input().Fields().ByName(validateOnly)
		isReadOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
		if isUnary && !isReadOnly && isFlag(field) {
			t.Preview = &Preview{Field: field}
		}
		return false, nil
	case !isUnary:
		return false, errors.New("the RPC streams, and only calls of unary RPCs can be previewed; remove it")
	case declared.GetMethod() != "":
		t.Preview, err = b.previewBy(t, declared.GetMethod())
		return true, err
	}
	field := md.Input().Fields().ByName(protoreflect.Name(declared.GetField()))
	switch {
	case field == nil:
		return false, fmt.Errorf("field: %s has no field %s; name one of its fields of type bool", md.Input().FullName(), declared.GetField())
	case !isFlag(field):
		return false, fmt.Errorf("field: %s is no single bool; name a field of type bool", field.FullName())
	}
	t.Preview = &Preview{Field: field}
	return false, nil
}

// isFlag holds for a single field of type bool.
func isFlag(fd protoreflect.FieldDescriptor) bool {
	return fd != nil && fd.Kind() == protoreflect.BoolKind && !fd.IsList()
}

// previewBy is the preview by another method of the service.
func (b *builder) previewBy(t *Tool, name string) (*Preview, error) {
	md := t.Method.Descriptor
	service, _ := md.Parent().(protoreflect.ServiceDescriptor)
	var by protoreflect.MethodDescriptor
	if service != nil {
		by = service.Methods().ByName(protoreflect.Name(name))
	}
	switch {
	case by == nil || by == md:
		return nil, fmt.Errorf("method: %s has no other method %s; name the method that previews", md.Parent().FullName(), name)
	case by.IsStreamingClient() || by.IsStreamingServer():
		return nil, fmt.Errorf("method: %s streams; name a unary method", by.FullName())
	case by.Input().FullName() != md.Input().FullName():
		return nil, fmt.Errorf("method: %s takes %s; name a method that takes %s", by.FullName(), by.Input().FullName(), md.Input().FullName())
	}
	options, err := readMethodOptions(by, b.world.hasToolOption)
	if err != nil {
		return nil, err
	}
	yes, no := true, false
	out := &Tool{
		Name: t.Name, MCPName: t.MCPName, Alias: t.Alias, Title: t.Title, Description: t.Description, Version: t.Version,
		Method: &Method{
			Procedure: "/" + methodName(by), Service: t.Method.Service, Source: t.Method.Source, Backend: b.backend,
			Descriptor: by, Idempotency: options.idempotency,
		},
		Annotations: Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes},
		Metadata:    Metadata{Module: t.Metadata.Module, CacheTTL: t.Metadata.CacheTTL},
		Timeout:     t.Timeout, TaskSupport: "forbidden", Hidden: true, RequestID: t.RequestID, ResultBudget: t.ResultBudget, Scopes: t.Scopes,
		Words: t.Words, Classes: t.Classes,
	}
	if err := b.bind.bind(out, nil); err != nil {
		return nil, err
	}
	// What is said of the method that previews holds for what it says in the name of another one.
	id, derived := methodName(by), b.derivedNames(by)
	names := derived.forms()
	if n := options.tool.GetName(); n != "" {
		names = append(names, n, MCPName(n))
	}
	declared, _, _ := b.overlaid(out.Method.Service, id, names, options.tool)
	base := *out
	base.Name, base.Alias = cmp.Or(declared.GetName(), derived.name), derived.alias
	if n := declared.GetName(); n != "" && n == options.tool.GetName() {
		base.Name = b.prefixed(n)
	}
	base.MCPName = MCPName(base.Name)
	base.Classes = b.classes(out, out.Method.Service, id, names)
	out.Base = &base
	return &Preview{Tool: out}, nil
}
