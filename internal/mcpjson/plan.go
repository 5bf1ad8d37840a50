// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/fieldrules"
)

// plan says how one message of outrigger.v1 is written and read. It is compiled once,
// from the descriptor, the rules of the contract, and the few places where MCP differs
// (exceptions.go).
type plan struct {
	// members are in the order of the descriptor, which is the order of writing.
	members []*member
	// reading has them in the order of reading, which decides on the fault that is
	// reported among several.
	reading []*member
	// empty is the message without anything, which stands for one that is nil.
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

	fieldrules.Rules
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
	answers, arguments, token fieldrules.Rules
	// faults are what does not fit together; a test says that there are none.
	faults []string
}

var compiled = sync.OnceValue(func() *plans { return compile(exceptions()) })

// compile makes the plans of all messages that this package writes or reads.
func compile(known map[string]exception) *plans {
	p := &plans{
		byType:    make(map[reflect.Type]*plan),
		answers:   fieldrules.Of(new(outriggerv1.ToolCall), "input_responses"),
		arguments: fieldrules.Of(new(outriggerv1.GetPromptRequest), "arguments"),
		token:     fieldrules.Of(new(outriggerv1.Id), "text"),
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
		e.name = camelCase(string(d.Name()))
	}
	return e
}

// member makes the member of a field that stands in the struct itself.
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
	m := &member{exception: c.exception(fd), Rules: fieldrules.Read(fd), field: string(fd.Name()), index: index}
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
	m.Required = fieldrules.OneofRequired(od)
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
	if m.name = camelCase(field); field == "meta" {
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

// camelCase is MCP's way to write a name.
func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i := 1; i < len(parts); i++ {
		parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
	}
	return strings.Join(parts, "")
}
