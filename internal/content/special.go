// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// special appends a member that is MCP's own, or another one in each revision.
func (w *writer) special(m *member, message, v reflect.Value) {
	switch m.kind {
	case kindToolName:
		t, _ := reflect.TypeAssert[*outriggerv1.Tool](message.Addr())
		name := t.GetMcpName()
		if name == "" {
			name = t.GetName()
		}
		w.text(m, name)
	case kindInputSchema, kindOutputSchema:
		w.toolSchema(m, v)
	case kindStructured:
		field, raw, message := m.forms(v)
		w.enter(field)
		data := w.freeForm(raw, message)
		w.leave()
		if data != nil {
			w.structured(data)
		}
	case kindConversation:
		s, _ := reflect.TypeAssert[*outriggerv1.Sampling](message.Addr())
		w.conversation(m, s.GetMessages())
	default: // what only clients send
	}
}

// exception is where MCP, or what this package says of it, differs from what the
// descriptor and the rules say about a field.
type exception struct {
	kind kind
	// always holds for a member that MCP requires and the contract may leave empty.
	always bool
	// late holds for lists whose elements are judged when the whole was read.
	late bool
	// turn is when a member is read; the members of each turn in their order.
	turn int8
	// name is MCP's, where it is not the field's in camel case.
	name string
	// lacks is the reason where a message is written without it.
	lacks string
	// reason is why a value that was read does not fit.
	reason string
}

// noValue is the usual reason where a message is written without a member.
const noValue = "MCP requires it; give it a value."

// notShown are the fields that MCP does not have, and those that code beside the plan
// writes or reads.
const notShown = `Tool.mcp_name Tool.canonical_input_schema_json Tool.canonical_output_schema_json Tool.version Tool.fingerprint
	Tool.digest Tool.metadata Tool.execution Tool.binding Tool.examples Tool.tags Tool.meta_form
	Task.ttl Task.poll_interval Task.completion Task.input_requests Task.meta_form
	CompleteRequest.context CompleteRequest.meta_form CompleteResponse.meta_form ClientCapabilities.tasks
	Skill.resources Skill.dynamic
	ElicitationUrl.elicitation_id ElicitationForm.requested_schema_form`

// exceptions returns all of them, by message and field or oneof.
func exceptions() map[string]exception {
	const (
		mediaType = "Make it a media type, such as image/png."
		noBytes   = "MCP requires it; give the file's bytes."
		noBlock   = "Set what the block is."
		noWords   = "MCP requires it; give one of the five."
	)
	out := map[string]exception{
		"ContentBlock.block":         {kind: kindTagged, lacks: noBlock},
		"ContentBlock.resource_link": {kind: kindLink},
		"TextContent.text":           {always: true},
		"ImageContent.data":          {lacks: noBytes},
		"ImageContent.mime_type":     {reason: mediaType},
		"AudioContent.data":          {lacks: noBytes},
		"AudioContent.mime_type":     {reason: mediaType},
		"EmbeddedResource.contents":  {name: "resource"},
		"ResourceContents.data":      {lacks: "Set text or blob; either may be empty.", reason: "Give either text or blob."},
		"Icon.sizes":                 {turn: 1, reason: `Make it "any", or width and height like "48x48".`},
		"Icon.theme":                 {reason: "Use light or dark."},

		"Tool.name":                          {kind: kindToolName},
		"Tool.input_schema_form":             {kind: kindInputSchema},
		"Tool.output_schema_form":            {kind: kindOutputSchema},
		"ResourceTemplate.uri_template":      {kind: kindTemplate},
		"Implementation.version":             {always: true},
		"CompleteResponse.values":            {always: true},
		"CompletionArgument.value":           {always: true},
		"CompleteRequest.prompt":             {name: "name"},
		"CompleteRequest.resource":           {name: "uri"},
		"CompleteRequest.filled_arguments":   {name: "arguments"},
		"ChangeFilter.resource_uris":         {name: "resourceSubscriptions", late: true},
		"ChangeFilter.task_ids":              {late: true, reason: "Make it a task's id: visible ASCII."},
		"ClientCapabilities.elicitation":     {kind: kindElicitationCap},
		"ClientCapabilities.extensions_form": {kind: kindExtensions},
		"ElicitationCapability.form":         {kind: kindYes},
		"ElicitationCapability.url":          {kind: kindYes},
		"SamplingCapability.tools":           {kind: kindYes},
		"SamplingCapability.context":         {kind: kindYes},

		"Sampling.messages":                         {kind: kindConversation},
		"Sampling.max_tokens":                       {lacks: "MCP requires it; make it positive."},
		"SamplingMessage.content":                   {kind: kindBlocks},
		"SamplingContent.block":                     {kind: kindTagged, lacks: noBlock},
		"ToolUseContent.input_form":                 {always: true},
		"ToolResultContent.content":                 {always: true},
		"ToolResultContent.structured_content_form": {kind: kindStructured},
		"SamplingResult.content":                    {kind: kindBlocks, always: true},
		"SamplingResult.model":                      {always: true},
		"ElicitationResult.content_form":            {kind: kindForm},

		"SkillFile.size": {lacks: noValue},

		"Progress.progress":    {always: true},
		"LogMessage.data_form": {lacks: "MCP requires it; give any JSON value."},
		"Task.status":          {lacks: noWords},
		"ErrorObject.code":     {lacks: "A failed task has an error with a code other than 0."},
		"ErrorObject.message":  {always: true},
	}
	for _, name := range []string{"Annotations.audience", "PromptMessage.role", "SamplingMessage.role"} {
		out[name] = exception{lacks: "Use one of the two roles, user or assistant."}
	}
	for name := range strings.FieldsSeq(notShown) {
		out[name] = exception{kind: kindHidden}
	}
	return out
}

const (
	// maxFreeFormBytes is the largest max_len of a payload in the contract.
	maxFreeFormBytes = 64 << 20
	// maxFreeFormDepth is what the JSON-RPC edges admit from callers, too: what
	// one side sends, the other must be able to send on.
	maxFreeFormDepth = defaults.MaxJSONDepth
)

// FreeForm returns a payload as compact JSON on one line, whichever of its forms is
// set: the JSON text, or a google.protobuf Struct, Value or ListValue. Nil bytes and a
// nil message mean that the payload is absent, and the result is nil.
//
// The text must be strict JSON: UTF-8, RFC 8259, no duplicate names, no lone
// surrogates, at most 64 levels deep. Text that is already compact is returned
// unchanged, so the result may alias it. A Struct is written with sorted names and has
// the same limits. Anything else is an *InvalidError with a path relative to the
// payload.
func FreeForm(bytesForm []byte, structForm proto.Message) ([]byte, error) {
	w := newWriter(nil, Rev20260728)
	out := w.freeForm(bytesForm, structForm)
	if w.err != nil {
		return nil, w.err
	}
	return out, nil
}

// freeForm is FreeForm that keeps its fault.
func (w *writer) freeForm(text []byte, m proto.Message) []byte {
	if text != nil {
		switch {
		case !w.check(text):
			return nil
		case jsontext.IsCompact(text):
			return text
		}
		return jsontext.Compact(make([]byte, 0, len(text)), text)
	}
	if isAbsent(m) {
		return nil
	}
	inner := newWriter(nil, w.rev)
	inner.trail = w.trail
	inner.message(m)
	w.err = inner.err
	return inner.dst
}

// isAbsent reports whether a message is nil, with a type or without.
func isAbsent(m proto.Message) bool { return m == nil || !m.ProtoReflect().IsValid() }

// check keeps what makes the text unfit to be passed on.
func (w *writer) check(text []byte) bool {
	if len(text) == 0 {
		w.fail("It is set and empty; give it one JSON value.")
		return false
	}
	limits := jsonrpc.Limits{MaxBytes: maxFreeFormBytes, MaxDepth: maxFreeFormDepth}
	if fault := jsonrpc.Check(text, limits); fault != nil {
		w.failBelow(fault.Path, "It is no JSON that can be passed on: %s", fault.Reason)
		return false
	}
	return true
}

// formName is the name of the form of a payload that is set, made of that of the text.
func formName(field string, text []byte) string {
	if text == nil {
		return strings.TrimSuffix(field, "_json")
	}
	return field
}

// form appends a payload of which one form is set, whose name is given.
func (w *writer) form(field string, text []byte, m proto.Message) {
	w.enter(field)
	switch {
	case text == nil:
		w.message(m)
	case w.check(text):
		w.dst = jsontext.Compact(w.dst, text)
	}
	w.leave()
}

// message appends one of the three messages that stand for JSON.
func (w *writer) message(m proto.Message) {
	switch m := m.(type) {
	case *structpb.Struct:
		w.structure(m, 1)
	case *structpb.Value:
		w.dynamic(m, 0)
	case *structpb.ListValue:
		w.array(m, 1)
	default:
		w.fail("Only a Struct, a Value or a ListValue stands for JSON.")
	}
}

// dynamic appends a Value; depth is the number of open containers.
func (w *writer) dynamic(v *structpb.Value, depth int) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		w.raw("null")
	case *structpb.Value_BoolValue:
		w.raw(boolText(kind.BoolValue))
	case *structpb.Value_NumberValue:
		if !isFinite(kind.NumberValue) {
			w.fail("Make it a finite number; JSON knows no other.")
			return
		}
		w.dst = appendNumber(w.dst, kind.NumberValue)
	case *structpb.Value_StringValue:
		w.dynamicText(kind.StringValue)
	case *structpb.Value_StructValue:
		w.structure(kind.StructValue, depth+1)
	case *structpb.Value_ListValue:
		w.array(kind.ListValue, depth+1)
	default:
		w.fail("Set one of the kinds of this Value; null is one.")
	}
}

func (w *writer) structure(s *structpb.Struct, depth int) {
	if !w.mayNest(depth) {
		return
	}
	w.raw("{")
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		w.comma()
		w.enter(name)
		w.dynamicText(name)
		w.raw(":")
		w.dynamic(s.GetFields()[name], depth)
		w.leave()
	}
	w.raw("}")
}

func (w *writer) array(l *structpb.ListValue, depth int) {
	if !w.mayNest(depth) {
		return
	}
	w.raw("[")
	for i, v := range l.GetValues() {
		w.comma()
		w.item(i)
		w.dynamic(v, depth)
		w.leave()
	}
	w.raw("]")
}

// mayNest keeps the recursion within bounds.
func (w *writer) mayNest(depth int) bool {
	if depth > maxFreeFormDepth {
		w.fail("Nest objects and arrays at most %d levels deep.", maxFreeFormDepth)
		return false
	}
	return w.err == nil
}

// dynamicText appends a string that did not have to pass Protobuf's own check.
func (w *writer) dynamicText(s string) {
	if !utf8.ValidString(s) {
		w.fail("Make it valid UTF-8.")
	}
	w.quote(s)
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// plan says how one message of outrigger.v1 is written and read. It is compiled once,
// from the descriptor, the rules of the contract, and the few places where MCP differs
// ([exceptions]).
type plan struct {
	// members are in the order of the descriptor, which is the order of writing.
	members []*member
	// reading has them in the order of reading, which decides on the fault that is
	// reported among several.
	reading []*member
	// empty is the message without anything, which represents one that is nil.
	empty reflect.Value
}

// maxMembers is the most members of a message that MCP shows.
const maxMembers = 12

// member is one field of a message, or one of its oneofs.
type member struct {
	exception

	// index is the place in the Go struct.
	index int
	// key is the name in quotes with a comma and a colon.
	key string
	// field is the name in the message, for paths.
	field string
	// isPointer holds for a scalar with presence.
	isPointer bool
	// of is the plan of a message, or of the messages of a list.
	of *plan
	// alternatives are those of a oneof, wrapper the Go type that an alternative is
	// wrapped in.
	alternatives []*member
	wrapper      reflect.Type
	// tag is what names an alternative behind "type".
	tag string
	// enum are the words of an enum, by its numbers.
	enum []string
	// isObject holds for a payload that has to be an object.
	isObject bool

	schema.FieldRules
}

// kind is how a member is written and read.
type kind uint8

const (
	kindByDescriptor kind = iota // what the descriptor says; none is left after compiling
	kindHidden                   // MCP has no such member here, or code beside the plan has it
	kindText
	kindTexts
	kindFlag
	kindInteger
	kindNumber
	kindBinary // base64
	kindMoment // a time of RFC 3339
	kindWord   // an enum by its names
	kindWords
	kindObject
	kindObjects
	kindPairs    // a map of strings
	kindFreeForm // a payload in two forms
	kindChoice   // a oneof whose alternatives are members
	kindTagged   // a oneof whose alternatives are flattened behind "type"
	// The rest is MCP's own, with a function beside the plan.
	kindYes            // {} where a flag is true
	kindToolName       // the name that MCP clients know
	kindTemplate       // a URI template
	kindInputSchema    // schemas of tools
	kindOutputSchema   //
	kindStructured     // data, as far as the revision has them
	kindLink           // a resource link, or text
	kindConversation   // messages, whose blocks a revision may take apart
	kindBlocks         // one block or an array of them
	kindElicitationCap // a capability in which nothing means forms
	kindExtensions     // extensions, which name tasks, too
	kindForm           // a filled-in form
)

// plans are the compiled plans, by the Go type of the message. They are never written
// after that.
type plans struct {
	byType map[reflect.Type]*plan
	// Of these messages only one field is read.
	answers, arguments, token schema.FieldRules
	// faults are what does not fit together; a test says that there are none.
	faults []string
}

var compiled = sync.OnceValue(func() *plans { return compile(exceptions()) })

// compile makes the plans of all messages that this package writes or reads.
func compile(known map[string]exception) *plans {
	p := &plans{
		byType:    make(map[reflect.Type]*plan),
		answers:   schema.FieldRulesOf(new(outriggerv1.ToolCall), "input_responses"),
		arguments: schema.FieldRulesOf(new(outriggerv1.GetPromptRequest), "arguments"),
		token:     schema.FieldRulesOf(new(outriggerv1.Id), "text"),
	}
	for _, m := range []proto.Message{
		new(outriggerv1.Tool), new(outriggerv1.ContentBlock), new(outriggerv1.Prompt), new(outriggerv1.PromptMessage), new(outriggerv1.Resource),
		new(outriggerv1.ResourceTemplate), new(outriggerv1.CompleteResponse), new(outriggerv1.Progress), new(outriggerv1.LogMessage),
		new(outriggerv1.ChangeFilter), new(outriggerv1.Task), new(outriggerv1.ErrorObject), new(outriggerv1.ClientCapabilities),
		new(outriggerv1.Implementation), new(outriggerv1.Elicitation), new(outriggerv1.Sampling), new(outriggerv1.ListRoots), new(outriggerv1.InputResponse),
		new(outriggerv1.CompleteRequest), new(outriggerv1.Skill), new(outriggerv1.SkillFile),
	} {
		p.plan(reflect.TypeOf(m), known)
	}
	for name := range known {
		p.faults = append(p.faults, name+" is no field")
	}
	return p
}

// planOf returns the plan of a message.
func planOf(m proto.Message) *plan { return compiled().byType[reflect.TypeOf(m)] }

// field returns the member of a field or of a oneof.
func (p *plan) field(name string) *member {
	for _, m := range p.members {
		if m.field == name {
			return m
		}
	}
	return nil
}

// plan returns the plan of the message with this Go type, a pointer.
func (p *plans) plan(t reflect.Type, known map[string]exception) *plan {
	if have := p.byType[t]; have != nil {
		return have
	}
	out := &plan{empty: reflect.New(t.Elem()).Elem()}
	p.byType[t] = out // before its fields: messages may hold themselves
	md := out.empty.Addr().Interface().(proto.Message).ProtoReflect().Descriptor()
	c := compiler{plans: p, known: known, md: md, t: t.Elem()}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		od := fd.ContainingOneof()
		switch {
		case od == nil || od.IsSynthetic():
			out.members = append(out.members, c.member(fd))
		case od.Fields().Get(0) == fd:
			out.members = append(out.members, c.oneof(od))
		}
	}
	out.members = slices.DeleteFunc(out.members, func(m *member) bool { return m.kind == kindHidden })
	out.reading = slices.SortedStableFunc(slices.Values(out.members), func(a, b *member) int { return cmp.Compare(a.turn, b.turn) })
	if len(out.members) > maxMembers {
		p.faults = append(p.faults, string(md.FullName())+" has too many members")
	}
	return out
}

// compiler makes the members of one message.
type compiler struct {
	*plans
	known map[string]exception
	md    protoreflect.MessageDescriptor
	t     reflect.Type
}

// exception takes what the table says about a field or a oneof.
func (c compiler) exception(d protoreflect.Descriptor) exception {
	name := string(c.md.Name()) + "." + string(d.Name())
	e := c.known[name]
	delete(c.known, name)
	if e.name == "" {
		e.name = lowerCamel(string(d.Name()))
	}
	return e
}

// member makes the member of a field that is in the struct itself.
func (c compiler) member(fd protoreflect.FieldDescriptor) *member {
	for i := range c.t.NumField() {
		if tag := strings.Split(c.t.Field(i).Tag.Get("protobuf"), ","); len(tag) > 1 && tag[1] == strconv.Itoa(int(fd.Number())) {
			return c.fieldOf(fd, c.t.Field(i).Type, i)
		}
	}
	c.faults = append(c.faults, string(fd.FullName())+" has no Go field")
	return &member{exception: exception{kind: kindHidden}}
}

// fieldOf makes the member of a field whose Go field is known.
func (c compiler) fieldOf(fd protoreflect.FieldDescriptor, t reflect.Type, index int) *member {
	m := &member{exception: c.exception(fd), FieldRules: schema.ReadFieldRules(fd), field: string(fd.Name()), index: index}
	m.key = `,"` + m.name + `":`
	if m.kind == kindHidden {
		return m
	}
	if fd.HasOptionalKeyword() {
		m.isPointer, m.Required = true, false
	}
	if fd.Enum() != nil {
		m.enum = enumWords(fd.Enum())
	}
	if m.kind == kindByDescriptor {
		m.kind = descriptorKind(fd)
	}
	if m.kind == kindByDescriptor {
		c.faults = append(c.faults, string(fd.FullName())+" has a kind that no plan has")
	}
	m.require()
	switch {
	case fd.IsMap() || fd.Message() == nil || m.kind == kindMoment:
	case fd.IsList():
		m.of = c.plan(t.Elem(), c.known)
	default:
		m.of = c.plan(t, c.known)
	}
	return m
}

// require says why a member has to have a value, where it has to.
func (m *member) require() {
	if m.Required && m.lacks == "" {
		m.lacks = noValue
	}
}

// isWord reports whether a string is one of those that it may be.
func (m *member) isWord(s string) bool { return slices.Contains(m.In, s) }

// oneof makes the member of a oneof. Of a payload the forms are Struct or Value, and
// the text.
func (c compiler) oneof(od protoreflect.OneofDescriptor) *member {
	m := &member{exception: c.exception(od), field: string(od.Name()), key: `,"type":`}
	m.Required = schema.OneofRequired(od)
	field, isPayload := strings.CutSuffix(m.field, "_form")
	for i := range c.t.NumField() {
		if c.t.Field(i).Tag.Get("protobuf_oneof") == m.field {
			m.index = i
		}
	}
	for i := range od.Fields().Len() {
		fd := od.Fields().Get(i)
		wrapper := c.wrapper(fd, m.index)
		if isPayload && fd.Message() != nil { // a Struct or a Value, which is no message of ours
			m.alternatives = append(m.alternatives, &member{field: string(fd.Name()), wrapper: wrapper})
			continue
		}
		alternative := c.fieldOf(fd, wrapper.Elem().Field(0).Type, 0)
		alternative.wrapper, alternative.always, alternative.tag = wrapper, true, `"`+alternative.field+`"`
		m.alternatives = append(m.alternatives, alternative)
	}
	if !isPayload {
		if m.kind == kindByDescriptor {
			m.kind = kindChoice
		}
		return m
	}
	return c.payload(m, field, od)
}

// payload makes a oneof the member of a payload.
func (c compiler) payload(m *member, field string, od protoreflect.OneofDescriptor) *member {
	if m.name = lowerCamel(field); field == "meta" {
		m.name = "_meta"
	}
	m.field, m.key = field, `,"`+m.name+`":`
	m.MaxBytes = m.alternatives[1].MaxBytes
	m.isObject = od.Fields().Get(0).Message().Name() == "Struct"
	m.require()
	if m.kind == kindByDescriptor {
		m.kind = kindFreeForm
	}
	return m
}

// wrapper returns the Go type that wraps an alternative.
func (c compiler) wrapper(fd protoreflect.FieldDescriptor, index int) reflect.Type {
	v := reflect.New(c.t)
	m := v.Interface().(proto.Message).ProtoReflect()
	m.Set(fd, m.NewField(fd))
	return v.Elem().Field(index).Elem().Type()
}

// descriptorKind returns what the descriptor says; kindByDescriptor where that is nothing.
func descriptorKind(fd protoreflect.FieldDescriptor) kind {
	single := kindByDescriptor
	many := kindByDescriptor
	switch fd.Kind() {
	case protoreflect.StringKind:
		single, many = kindText, kindTexts
	case protoreflect.EnumKind:
		single, many = kindWord, kindWords
	case protoreflect.MessageKind:
		if single, many = kindObject, kindObjects; fd.Message().FullName() == "google.protobuf.Timestamp" {
			single, many = kindMoment, kindByDescriptor
		}
	case protoreflect.BoolKind:
		single = kindFlag
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Int64Kind:
		single = kindInteger
	case protoreflect.DoubleKind:
		single = kindNumber
	case protoreflect.BytesKind:
		single = kindBinary
	}
	switch {
	case fd.IsMap() && fd.MapValue().Kind() == protoreflect.StringKind:
		return kindPairs
	case fd.IsMap():
		return kindByDescriptor
	case fd.IsList():
		return many
	}
	return single
}

// enumWords are MCP's words for an enum: the names of its values, without what they
// all begin with, in lower case. The first value, which is not given, has none.
func enumWords(ed protoreflect.EnumDescriptor) []string {
	out := make([]string, ed.Values().Len())
	prefix := strings.TrimSuffix(string(ed.Values().ByNumber(0).Name()), "UNSPECIFIED")
	for i := 1; i < len(out); i++ {
		out[i] = strings.ToLower(strings.TrimPrefix(string(ed.Values().ByNumber(protoreflect.EnumNumber(i)).Name()), prefix))
	}
	return out
}

// InvalidError means that a message cannot be written, or a value cannot be read.
type InvalidError struct {
	// Path is a JSON Pointer (RFC 6901) to the fault; empty for the whole.
	// When writing, it leads through the message by its JSON names
	// ("/content/0/image/mime_type") and into free-form JSON text. When reading, it
	// leads through the value.
	Path string
	// Reason is one short sentence that says what to change. It repeats nothing
	// from the value.
	Reason string
}

// Error returns the reason, with the path if there is one.
func (e *InvalidError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// UnsupportedError means that the caller's revision of MCP cannot express a question.
// The message is valid: a client of a newer revision could be asked.
type UnsupportedError struct {
	Revision Revision
	// Feature is the missing feature, such as "elicitation with a URL".
	Feature string
}

// Error names the feature and the revision.
func (e *UnsupportedError) Error() string {
	return "MCP " + e.Revision.String() + " has no " + e.Feature
}

const (
	// maxTrail is more than the levels of the deepest message or value that is
	// translated: a resource with icons, in a tool's result, in a conversation,
	// in one of several questions. Deeper ones would only lose the end of a path.
	maxTrail = 16
	// maxPathBytes bounds a path: names in it can come from a sender, and paths
	// go into replies and logs.
	maxPathBytes = 512
)

// segment is one step of a path: an index, or a name where the index is negative.
type segment struct {
	name  string
	index int
}

// trail is where the work is, and the first thing that went wrong. Later faults
// are dropped: one is enough to refuse, and later ones may follow from it.
type trail struct {
	segments [maxTrail]segment // an array, so that a good message pays no allocation for it
	depth    int
	err      error
}

func (t *trail) enter(name string) { t.push(segment{name: name, index: -1}) }

func (t *trail) item(i int) { t.push(segment{index: i}) }

func (t *trail) push(s segment) {
	if t.depth < maxTrail {
		t.segments[t.depth] = s
	}
	t.depth++
}

func (t *trail) leave() { t.depth-- }

// fail keeps a fault of what is here.
func (t *trail) fail(format string, args ...any) { t.failBelow("", format, args...) }

// failIn keeps a fault of the member with this name.
func (t *trail) failIn(name, format string, args ...any) {
	t.enter(name)
	t.fail(format, args...)
	t.leave()
}

// failBelow keeps a fault of something below, to which the pointer leads.
func (t *trail) failBelow(pointer, format string, args ...any) {
	if t.err != nil {
		return
	}
	path := t.path()
	if len(path)+len(pointer) <= maxPathBytes {
		path += pointer
	}
	t.err = &InvalidError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// path is the pointer to what is here, cut at whole segments where it is long.
func (t *trail) path() string {
	var b strings.Builder
	for _, s := range t.segments[:min(t.depth, maxTrail)] {
		step := "/" + strconv.Itoa(s.index)
		if s.index < 0 {
			step = schema.AppendPointer("", s.name)
		}
		if b.Len()+len(step) > maxPathBytes {
			break
		}
		b.WriteString(step)
	}
	return b.String()
}
