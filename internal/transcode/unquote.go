// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Unquote decodes objects and arrays in JSON strings where the message expects an object or an array: messages, maps,
// lists, Struct, ListValue and Any. It returns the document with each string replaced by its decoded value, and the
// places of these values as JSON Pointers, in order. A document without any, and one that is not strict JSON within the
// bounds, is returned unchanged, without pointers.
//
// A string is decoded only if no string can be valid there, and only if it holds, apart from white space, one complete
// object or array of the expected kind within the bounds. It is decoded once: strings inside stay as they are. Nothing
// else is checked. A document that was valid before therefore remains valid and keeps its meaning.
//
// With Options.QuotedObjects, maps that are lists of entries become objects too. Their places are not returned.
func (m *Message) Unquote(doc []byte) (plain []byte, places []string) {
	plain, places, _ = m.unquoted(doc, true)
	return plain, places
}

// plainObjects is Unquote for what the strict profile shows in another form (Options.QuotedObjects): everything but lists
// that are fields. It reports whether the document is another one.
func (m *Message) plainObjects(doc []byte) (plain []byte, isChanged bool) {
	if !m.opts.QuotedObjects {
		return doc, false
	}
	plain, _, isChanged = m.unquoted(doc, false)
	return plain, isChanged
}

func (m *Message) unquoted(doc []byte, lists bool) (plain []byte, places []string, isChanged bool) {
	if bytes.IndexByte(doc, '"') < 0 || len(schema.Inspect(doc, m.opts.bounds())) > 0 {
		return doc, nil, false
	}
	u := unquoter{lists: lists, entries: m.opts.QuotedObjects, resolver: m.resolver, bounds: m.opts.bounds()}
	u.In, u.Pos = doc, jsontext.SkipSpace(doc, 0)
	if m.wrapped && u.Next() == '{' {
		u.members(func(name string) { u.value(m.md, name == "value") })
	} else {
		u.message(m.md)
	}
	if len(u.places) == 0 && !u.isJoined {
		return doc, nil, false
	}
	return u.Out, u.places, true
}

// UnquoteObject returns the content of a JSON string if it is one complete object in strict JSON within the usual
// bounds; otherwise nil.
func UnquoteObject(raw []byte) []byte { return unquotedIn(raw, "{") }

// UnquoteAt returns a document in which the string at a place is replaced by the object or array that it holds; nil if
// there is none. The place is a JSON Pointer, and the document must be valid. It is for values that no descriptor
// describes.
func UnquoteAt(doc []byte, place string) []byte {
	tokens := strings.Split(place, "/")[1:]
	for i, token := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return unquotedAt(doc, tokens)
}

// unquotedIn is what is in a JSON string, where that begins with one of the brackets.
func unquotedIn(raw []byte, brackets string) []byte {
	text, ok := jsontext.Text(raw)
	if !ok {
		return nil
	}
	content := bytes.Trim([]byte(text), " \t\r\n")
	if len(content) == 0 || strings.IndexByte(brackets, content[0]) < 0 || len(schema.Inspect(content, schema.Bounds{})) > 0 {
		return nil
	}
	return content
}

func unquotedAt(doc []byte, path []string) []byte {
	if len(path) == 0 {
		return unquotedIn(doc, "{[")
	}
	var out []byte
	isFound := false
	each := func(name string, value []byte) {
		if name == path[0] && !isFound {
			if changed := unquotedAt(value, path[1:]); changed != nil {
				value, isFound = changed, true
			}
		}
		out = append(append(out, value...), ',')
	}
	closing := byte('}')
	switch {
	case doc[0] == '{':
		out = append(out, '{')
		for name, value := range jsontext.Members(doc) {
			out = append(jsontext.AppendString(out, name), ':')
			each(name, value)
		}
	case doc[0] == '[':
		closing = ']'
		out = append(out, '[')
		i := 0
		for value := range jsontext.Elements(doc) {
			each(strconv.Itoa(i), value)
			i++
		}
	}
	if !isFound {
		return nil
	}
	out[len(out)-1] = closing
	return out
}

// unquoter copies JSON that is known to be in order, without the white space between tokens, and decodes on the way.
type unquoter struct {
	jsontext.Rewriter
	lists    bool
	entries  bool // a list of entries may stand for a map
	isJoined bool // one did
	resolver Resolver
	bounds   schema.Bounds
	path     []string
	places   []string
}

// value copies the value of a member that is a message, or of one that is not known.
func (u *unquoter) value(md protoreflect.MessageDescriptor, known bool) {
	if !known {
		u.Copy()
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
	if schema.IsWellKnown(md) || u.Next() != '{' {
		u.Copy()
		return
	}
	u.members(func(name string) {
		fd := namedField(u.resolver, md, name)
		switch {
		case fd == nil:
			u.Copy()
		case fd.IsMap():
			u.mapping(fd.MapValue().Message())
		case fd.IsList():
			u.list(fd.Message())
		default:
			u.value(fd.Message(), fd.Message() != nil)
		}
	})
}

func (u *unquoter) mapping(values protoreflect.MessageDescriptor) {
	if u.decoded('{') || u.entries && u.joined(values) {
		return
	}
	if values == nil || u.Next() != '{' {
		u.Copy()
		return
	}
	u.members(func(string) { u.value(values, true) })
}

// joined copies a map that is a list of entries, {"key": ..., "value": ...}, as an object, and reports whether it did. The
// strict profile shows maps so. A key that is there twice becomes a name that is there twice, which is refused later.
func (u *unquoter) joined(values protoreflect.MessageDescriptor) bool {
	if u.Next() != '[' {
		return false
	}
	end := jsontext.SkipValue(u.In, u.Pos)
	list := u.In[u.Pos:end]
	for entry := range jsontext.Elements(list) {
		if _, _, ok := entryOf(entry); !ok {
			return false
		}
	}
	u.Out = append(u.Out, '{')
	isFirst := true
	for entry := range jsontext.Elements(list) {
		key, value, _ := entryOf(entry)
		if !isFirst {
			u.Out = append(u.Out, ',')
		}
		isFirst = false
		u.Out = append(append(u.Out, key...), ':')
		below := unquoter{lists: u.lists, entries: true, resolver: u.resolver, bounds: u.bounds, path: append(slices.Clip(u.path), jsontext.PlainName(key))}
		below.In = value
		below.value(values, values != nil)
		u.Out = append(u.Out, below.Out...)
		u.places = append(u.places, below.places...)
	}
	u.Out = append(u.Out, '}')
	u.Pos, u.isJoined = end, true
	return true
}

// entryOf takes an entry of a map apart: the quoted key, and the value.
func entryOf(entry []byte) (key, value []byte, ok bool) {
	n := 0
	for name, member := range jsontext.Members(entry) {
		n++
		switch name {
		case schema.EntryKey:
			key = member
		case schema.EntryValue:
			value = member
		}
	}
	return key, value, n == 2 && len(key) > 0 && key[0] == '"' && len(value) > 0
}

func (u *unquoter) list(elements protoreflect.MessageDescriptor) {
	if u.lists && u.decoded('[') {
		return
	}
	if elements == nil || u.Next() != '[' {
		u.Copy()
		return
	}
	u.Items(func(i int) {
		u.path = append(u.path, strconv.Itoa(i))
		u.value(elements, true)
		u.path = u.path[:len(u.path)-1]
	})
}

// members copies an object; each is called with the position at a member's value.
func (u *unquoter) members(each func(name string)) {
	u.Members(func(quoted []byte) ([]byte, func()) {
		return quoted, func() {
			name := jsontext.PlainName(quoted)
			u.path = append(u.path, name)
			each(name)
			u.path = u.path[:len(u.path)-1]
		}
	})
}

// decoded copies the content of a string that holds an object or array, and says whether it did.
func (u *unquoter) decoded(opening byte) bool {
	if u.Next() != '"' {
		return false
	}
	end := jsontext.SkipString(u.In, u.Pos)
	content := jsontext.Trim(jsontext.AppendDecoded(nil, u.In[u.Pos:end]))
	if len(content) == 0 || content[0] != opening || len(schema.Inspect(content, u.bounds)) > 0 {
		return false
	}
	u.Pos = end
	u.Out = append(u.Out, content...)
	place := ""
	for _, token := range u.path {
		place = schema.AppendPointer(place, token)
	}
	u.places = append(u.places, place)
	return true
}

// surelyDepth is how deeply nested a message may be that decodes looks at. Few are, and the general engine has the
// rest.
const surelyDepth = 100

// decodes reports whether the general engine is sure to decode wire bytes. It needs no memory, and it may say no where
// the general engine would not: where the plan does not know all about the message (extensions, required fields, groups),
// and where an encoder would not write it like that.
func (p *plan) decodes(b []byte, depth int) bool {
	if depth > surelyDepth || p.form == formNone || p.open || len(p.needed) > 0 {
		return false
	}
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			return false
		}
		end := valueEnd(b, at, num, typ)
		if end < 0 {
			return false
		}
		s := p.byNumber(num)
		switch {
		case s == nil:
		case typ == s.wire:
			if typ == protowire.BytesType && !s.decodes(lengthened(b, at, end), depth) {
				return false
			}
		case typ == protowire.BytesType && s.packable:
			if !s.decodesPacked(lengthened(b, at, end)) {
				return false
			}
		default:
			return false
		}
		pos = end
	}
	return true
}

// lengthened is what follows the length of a value, which valueEnd has read before.
func lengthened(b []byte, at, end int) []byte {
	_, from := varintAt(b, at)
	return b[from:end]
}

// decodes looks at the content of a value with a length: a string, bytes, a message or the entry of a map.
func (s *slot) decodes(content []byte, depth int) bool {
	switch {
	case s.shape == shapeMap:
		return s.decodesEntry(content, depth)
	case s.below != nil:
		return s.below.prepared().decodes(content, depth+1)
	case s.kind == protoreflect.StringKind:
		return utf8.Valid(content)
	}
	return true
}

// decodesPacked looks at the numbers of a list that come in one piece.
func (s *slot) decodesPacked(b []byte) bool {
	for pos := 0; pos < len(b); {
		if pos = valueEnd(b, pos, s.number, s.wire); pos < 0 {
			return false
		}
	}
	return true
}

// decodesEntry looks at the entry of a map.
func (s *slot) decodesEntry(b []byte, depth int) bool {
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return false
		}
		part := s.key
		if num == s.value.number {
			part = s.value
		}
		if num != part.number || typ != part.wire || typ == protowire.StartGroupType {
			return false
		}
		end := valueEnd(b, at, num, typ)
		if end < 0 || typ == protowire.BytesType && !part.decodes(lengthened(b, at, end), depth+1) {
			return false
		}
		pos = end
	}
	return true
}
