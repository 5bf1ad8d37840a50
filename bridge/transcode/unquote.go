// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/bridge/schema"
)

// Unquote decodes objects and arrays that stand in JSON strings where the message wants an object or an array: messages,
// maps, lists, Struct, ListValue and Any. It returns the document with each of them in the place of its string, and where
// they stood, as JSON Pointers in their order; a document without any, and one that is not strict JSON within the bounds,
// is returned as it came, without pointers.
//
// A string is only decoded where no string can be right, and only where it holds, but for white space, one whole object or
// array of the wanted kind within the bounds. It is decoded once: what is inside stays as it is. Nothing is checked
// beyond that.
func (m *Message) Unquote(doc []byte) (plain []byte, places []string) { return m.unquoted(doc, true) }

// plainObjects is Unquote for what the strict profile shows as text (Options.QuotedObjects): everything but lists that
// are fields.
func (m *Message) plainObjects(doc []byte) []byte {
	if !m.opts.QuotedObjects {
		return doc
	}
	plain, _ := m.unquoted(doc, false)
	return plain
}

func (m *Message) unquoted(doc []byte, lists bool) ([]byte, []string) {
	if bytes.IndexByte(doc, '"') < 0 || len(schema.Inspect(doc, m.opts.bounds())) > 0 {
		return doc, nil
	}
	u := unquoter{in: doc, lists: lists, resolver: m.resolver, bounds: m.opts.bounds()}
	u.space()
	if m.wrapped && u.in[u.pos] == '{' {
		u.members(func(name string) { u.value(m.md, name == "value") })
	} else {
		u.message(m.md)
	}
	if len(u.places) == 0 {
		return doc, nil
	}
	return u.out, u.places
}

// unquoter copies JSON that is known to be in order, without the white space between tokens, and decodes on the way.
type unquoter struct {
	in       []byte
	pos      int
	out      []byte
	lists    bool
	resolver Resolver
	bounds   schema.Bounds
	path     []string
	places   []string
}

// value copies the value of a member that is a message, or of one that is not known.
func (u *unquoter) value(md protoreflect.MessageDescriptor, known bool) {
	if !known {
		u.copyValue()
		return
	}
	if opening := openingOf(md); opening != 0 && u.decoded(opening) {
		return
	}
	u.message(md)
}

// openingOf is how the JSON of a message begins where it can be nothing else; 0 where a string may be right.
func openingOf(md protoreflect.MessageDescriptor) byte {
	if !schema.IsWellKnown(md) {
		return '{'
	}
	switch md.Name() {
	case "Struct", "Any", "Empty":
		return '{'
	case "ListValue":
		return '['
	default:
		return 0
	}
}

// message copies a message. What lies inside a well-known type has no fields of ours, and what lies inside an Any is
// for its type to say.
func (u *unquoter) message(md protoreflect.MessageDescriptor) {
	if schema.IsWellKnown(md) || u.in[u.pos] != '{' {
		u.copyValue()
		return
	}
	u.members(func(name string) {
		fd := u.field(md, name)
		switch {
		case fd == nil:
			u.copyValue()
		case fd.IsMap():
			u.mapping(fd.MapValue().Message())
		case fd.IsList():
			u.list(fd.Message())
		default:
			u.value(fd.Message(), fd.Message() != nil)
		}
	})
}

func (u *unquoter) field(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if n := len(name); n > 2 && name[0] == '[' && name[n-1] == ']' {
		if x, err := u.resolver.FindExtensionByName(protoreflect.FullName(name[1 : n-1])); err == nil {
			return x.TypeDescriptor()
		}
		return nil
	}
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}

func (u *unquoter) mapping(values protoreflect.MessageDescriptor) {
	if u.decoded('{') {
		return
	}
	if values == nil || u.in[u.pos] != '{' {
		u.copyValue()
		return
	}
	u.members(func(string) { u.value(values, true) })
}

func (u *unquoter) list(elements protoreflect.MessageDescriptor) {
	if u.lists && u.decoded('[') {
		return
	}
	if elements == nil || u.in[u.pos] != '[' {
		u.copyValue()
		return
	}
	u.take()
	for i := 0; ; i++ {
		if u.space(); u.in[u.pos] == ']' {
			u.take()
			return
		}
		if u.in[u.pos] == ',' {
			u.take()
			u.space()
		}
		u.path = append(u.path, strconv.Itoa(i))
		u.value(elements, true)
		u.path = u.path[:len(u.path)-1]
	}
}

// members copies an object; each is called with the position at a member's value.
func (u *unquoter) members(each func(name string)) {
	u.take()
	for {
		u.space()
		switch u.in[u.pos] {
		case '}':
			u.take()
			return
		case ',':
			u.take()
			u.space()
		}
		start := u.pos
		u.skipString()
		raw := u.in[start:u.pos]
		u.out = append(u.out, raw...)
		u.space()
		u.take() // :
		u.space()
		name := plainName(raw)
		u.path = append(u.path, name)
		each(name)
		u.path = u.path[:len(u.path)-1]
	}
}

// decoded copies the content of a string that holds an object or array, and says whether it did.
func (u *unquoter) decoded(opening byte) bool {
	if u.in[u.pos] != '"' {
		return false
	}
	start := u.pos
	u.skipString()
	end := u.pos
	u.pos = start
	var text string
	if json.Unmarshal(u.in[start:end], &text) != nil {
		return false
	}
	content := bytes.Trim([]byte(text), " \t\r\n")
	if len(content) == 0 || content[0] != opening || len(schema.Inspect(content, u.bounds)) > 0 {
		return false
	}
	u.pos = end
	u.out = append(u.out, content...)
	place := ""
	for _, token := range u.path {
		place = schema.AppendPointer(place, token)
	}
	u.places = append(u.places, place)
	return true
}

func (u *unquoter) take() {
	u.out = append(u.out, u.in[u.pos])
	u.pos++
}

func (u *unquoter) space() {
	for u.pos < len(u.in) && u.in[u.pos] <= ' ' {
		u.pos++
	}
}

func (u *unquoter) skipString() {
	for u.pos++; u.in[u.pos] != '"'; u.pos++ {
		if u.in[u.pos] == '\\' {
			u.pos++
		}
	}
	u.pos++
}

// copyValue copies one value as it stands, which ends where its brackets are closed and something of the outer value
// follows.
func (u *unquoter) copyValue() {
	start := u.pos
	for depth := 0; u.pos < len(u.in); {
		c := u.in[u.pos]
		switch {
		case c == '"':
			u.skipString()
			continue
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case depth == 0 && (c == '}' || c == ']' || c == ','):
			u.out = append(u.out, bytes.TrimRight(u.in[start:u.pos], " \t\r\n")...)
			return
		}
		u.pos++
	}
	u.out = append(u.out, u.in[start:]...)
}
