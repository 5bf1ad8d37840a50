// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// mutator changes documents where their descriptor says that it matters. It is not safe for concurrent use.
type mutator struct {
	*rand.Rand

	types *sources.Types
}

// place is what a value in a document represents. A nil field is the root.
type place struct {
	fd    protoreflect.FieldDescriptor
	md    protoreflect.MessageDescriptor // of a message, an element or a map's value; nil for scalars
	inner bool                           // an element of a list or a map's value
}

func placeOf(fd protoreflect.FieldDescriptor) place {
	if fd.IsMap() {
		return place{fd: fd, md: fd.MapValue().Message()}
	}
	return place{fd: fd, md: fd.Message()}
}

func (p place) isList() bool { return p.fd != nil && p.fd.IsList() && !p.inner }
func (p place) isMap() bool  { return p.fd != nil && p.fd.IsMap() && !p.inner }

// element is a value within a list or map.
func (p place) element() place { return place{fd: p.fd, md: p.md, inner: true} }

// document changes a document in one to three places.
func (g *mutator) document(root any, md protoreflect.MessageDescriptor) any {
	for range 1 + g.IntN(3)*g.IntN(2) {
		root = g.value(root, place{md: md})
	}
	return root
}

// value goes down a random way and changes what is at its end.
func (g *mutator) value(v any, at place) any {
	switch {
	case at.isList():
		return g.list(v, at)
	case at.isMap():
		return g.mapping(v, at)
	case at.md != nil:
		if o, ok := v.(object); ok && !schema.IsWellKnown(at.md) {
			return g.message(o, at.md)
		} else if ok && at.md.FullName() == "google.protobuf.Any" {
			return g.packed(o)
		}
		return g.fragment(at)
	default:
		return g.fragment(at)
	}
}

func (g *mutator) list(v any, at place) any {
	items, ok := v.([]any)
	switch n := g.IntN(4); {
	case !ok || n == 0:
		return g.fragment(at)
	case n == 1 || len(items) == 0:
		return append(items, g.fragment(at.element()))
	default:
		i := g.IntN(len(items))
		items[i] = g.value(items[i], at.element())
		return items
	}
}

func (g *mutator) mapping(v any, at place) any {
	entries, ok := v.(object)
	switch n := g.IntN(4); {
	case !ok || n == 0:
		return g.fragment(at)
	case n == 1 || len(entries) == 0:
		return append(entries, member{choose(g, mapKeys()), g.fragment(at.element())})
	case n == 2:
		entries[g.IntN(len(entries))].name = choose(g, mapKeys())
		return entries
	default:
		i := g.IntN(len(entries))
		entries[i].value = g.value(entries[i].value, at.element())
		return entries
	}
}

// packed changes an Any: its type, or what it holds.
func (g *mutator) packed(o object) any {
	switch g.IntN(4) {
	case 0:
		return o.set("@type", choose(g, []string{"", "type.googleapis.com/", "google.protobuf.Duration", "type.googleapis.com/google.protobuf.Duration", "type.googleapis.com/no.Such", "/google.protobuf.Empty"}))
	case 1:
		return o.set(choose(g, []string{"value", "unknown", "@type", "seconds"}), g.fragment(place{}))
	case 2:
		if len(o) > 0 {
			return o.without(g.IntN(len(o)))
		}
	}
	if md := typeOf(g.types, o); md != nil && !schema.IsWellKnown(md) {
		if changed, ok := g.message(o, md).(object); ok {
			return changed
		}
	}
	return o.set("value", g.fragment(place{}))
}

// typeOf finds the type that an Any names.
func typeOf(types *sources.Types, o object) protoreflect.MessageDescriptor {
	url, _ := o.get("@type")
	text, _ := url.(string)
	mt, err := types.FindMessageByURL(text)
	if err != nil {
		return nil
	}
	return mt.Descriptor()
}

func (g *mutator) message(o object, md protoreflect.MessageDescriptor) any {
	fds := fieldsOf(md, g.types)
	switch n := g.IntN(16); {
	case n == 0:
		return g.fragment(place{md: md})
	case n == 1:
		return o.set(choose(g, []string{"unknown", "", "@type", "value", "[no.such.extension]", "Name", "name "}), g.fragment(place{}))
	case n <= 6 && len(fds) > 0:
		return g.field(o, fds[g.IntN(len(fds))])
	case n == 7 && md.Oneofs().Len() > 0:
		od := md.Oneofs().Get(g.IntN(md.Oneofs().Len()))
		for range 2 {
			o = g.field(o, od.Fields().Get(g.IntN(od.Fields().Len())))
		}
		return o
	}
	if len(o) == 0 {
		return o
	}
	i := g.IntN(len(o))
	fd := fieldByName(fds, o[i].name)
	switch g.IntN(8) {
	case 0:
		return o.without(i)
	case 1:
		o[i].value = nil
	case 2:
		return append(o, o[i])
	case 3:
		if fd != nil {
			o[i].name = choose(g, schema.Names(fd))
		}
	default:
		if fd == nil {
			o[i].value = g.fragment(place{})
			return o
		}
		o[i].value = g.value(o[i].value, placeOf(fd))
	}
	return o
}

// field sets a field under one of its names, whether or not it is there under another.
func (g *mutator) field(o object, fd protoreflect.FieldDescriptor) object {
	name := choose(g, append([]string{string(fd.Name()), fd.TextName()}, schema.Names(fd)...))
	return o.set(name, g.fragment(placeOf(fd)))
}

// fieldByName finds the field that ProtoJSON means by a name.
func fieldByName(fds []protoreflect.FieldDescriptor, name string) protoreflect.FieldDescriptor {
	for _, fd := range fds {
		if slices.Contains(schema.Names(fd), name) {
			return fd
		}
	}
	return nil
}

func choose[T any](g *mutator, from []T) T { return from[g.IntN(len(from))] }

// fragment is a value that is near what the place wants, or far from it.
func (g *mutator) fragment(at place) any {
	text := choose(g, general())
	near := g.IntN(4) > 0
	switch {
	case at.fd == nil && at.md == nil || !near:
	case at.isList():
		return []any{g.fragment(at.element())}
	case at.isMap():
		return object{{choose(g, mapKeys()), g.fragment(at.element())}}
	case at.md != nil:
		text = choose(g, g.messageFragments(at.md))
	default:
		fd := at.fd
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		text = choose(g, scalarFragments(g, fd))
	}
	return parsed(text)
}

// parsed is the tree of a fragment, so that later changes can go into it; text that is no JSON stays as it is.
func parsed(text string) any {
	if !json.Valid([]byte(text)) {
		return raw(text)
	}
	v, err := parseTree([]byte(text))
	if err != nil {
		return raw(text)
	}
	return v
}

func (g *mutator) messageFragments(md protoreflect.MessageDescriptor) []string {
	if !schema.IsWellKnown(md) {
		return []string{`{}`, `{}`, `{"":null}`, `{"value":{}}`, `null`, `[]`, `[{}]`, `"{}"`}
	}
	switch md.Name() {
	case "Timestamp":
		return timestamps()
	case "Duration":
		return durations()
	case "FieldMask":
		return fieldMasks()
	case "Any":
		return anys()
	case "Struct", "ListValue", "Value", "Empty":
		return []string{`{}`, `{"a":null}`, `{"a":{"b":[1,"x",null,1e300]}}`, `{"a":1,"a":2}`, `[]`, `[null,[1]]`, `1e400`, `"NaN"`, `null`, `-0`, `"x"`, `true`, `{"a":1e999}`}
	default:
		return scalarFragments(g, md.Fields().ByName("value"))
	}
}

func scalarFragments(g *mutator, fd protoreflect.FieldDescriptor) []string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return []string{`true`, `false`, `"true"`, `0`, `1`, `"False"`}
	case protoreflect.StringKind:
		return []string{`"a"`, `""`, `"\u0000"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\udc00x"`, "\"\xff\"", `"\x"`, `1`, `"é\/"`, `"` + strings.Repeat("x", 300) + `"`}
	case protoreflect.BytesKind:
		return []string{`"AQ=="`, `"AQ"`, `"AQ="`, `"A"`, `"-_8="`, `"-_8"`, `"+/8"`, `"+_8="`, `"AQ\n=="`, `"A Q="`, `"===="`, `""`, `"AR=="`, `"AQ==AQ=="`, `1`}
	case protoreflect.EnumKind:
		return enumFragments(g, fd.Enum())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return append(numbers(), `3.4028235e38`, `3.4028236e38`, `3.5e38`, `1e39`, `1.7976931348623157e308`, `1.8e308`, `1e309`, `1e-400`, `-1e-46`,
			`"NaN"`, `"Infinity"`, `"-Infinity"`, `"nan"`, `"+Infinity"`, `"inf"`, `"-NaN"`, `"1e39"`, `"3.5e38"`, `"1e400"`, `NaN`, `"0x1p3"`, `"1_0"`)
	default:
		return numbers()
	}
}

func numbers() []string {
	return []string{
		`0`, `-0`, `1`, `-1`, `1.0`, `1.5`, `1e2`, `1e-1`, `10e-1`, `0.1e1`, `2147483647`, `2147483648`, `-2147483648`, `-2147483649`, `4294967295`, `4294967296`,
		`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `18446744073709551615`, `18446744073709551616`,
		`9007199254740993`, `1e19`, `1.8446744073709551615e19`, `100000000000000000000e-20`, `0e99`, `1e1000`, `01`, `+1`, `.5`, `1.`,
		`"0"`, `"-0"`, `"1"`, `"-1"`, `"+1"`, `"01"`, `" 1"`, `"1 "`, `"1.0"`, `"1.5"`, `"1e2"`, `".5"`, `"1."`, `"1e"`, `"0x1"`, `""`, `"-"`, `"1e0"`,
		`"2147483648"`, `"4294967295"`, `"9007199254740993"`, `"9223372036854775808"`, `"-9223372036854775808"`, `"18446744073709551615"`, `"18446744073709551616"`,
	}
}

func enumFragments(g *mutator, ed protoreflect.EnumDescriptor) []string {
	out := []string{`0`, `1`, `-1`, `1.0`, `1e0`, `0.5`, `99999`, `2147483647`, `2147483648`, `-2147483649`, `"0"`, `"1"`, `""`, `"NO_SUCH"`, `"NULL_VALUE"`, `true`}
	if !ed.IsPlaceholder() {
		ev := ed.Values().Get(g.IntN(ed.Values().Len()))
		name := strconv.Quote(string(ev.Name()))
		out = append(out, name, name, name, strings.ToLower(name), `" `+name[1:], strconv.Itoa(int(ev.Number())), `"`+strconv.Itoa(int(ev.Number()))+`"`)
	}
	return out
}

func general() []string {
	return []string{
		`null`, `null`, `true`, `false`, `{}`, `[]`, `[null]`, `[1]`, `[{}]`, `{"name":"x"}`, `{"a":null}`, `{"1":"x"}`, `{"value":1}`, `0`, `1`, `1.5`, `-1`, `1e2`,
		`""`, `"1"`, `"x"`, `"null"`, `"[1]"`, `"{}"`, `[[1]]`, `{"a":{"b":{"c":[]}}}`, strings.Repeat("1", 400), `1e-99`,
	}
}

func mapKeys() []string {
	return []string{"", "a", "1", "+1", "01", "-0", "0", "-1", " 1", "1.0", "1e0", "true", "false", "True", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "null", "\u2028"}
}

func timestamps() []string {
	return []string{
		`"2024-02-29T12:00:00Z"`, `"2023-02-29T12:00:00Z"`, `"2024-02-29T12:00:00.123456789+01:00"`, `"2024-02-29T12:00:00.1234567890Z"`, `"2024-02-29t12:00:00z"`,
		`"2024-02-29T12:00:00"`, `"0001-01-01T00:00:00Z"`, `"0001-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`, `"9999-12-31T23:59:59.999999999Z"`, `"0000-12-31T23:59:59Z"`,
		`"2024-02-29T1:00:00Z"`, `"2024-02-29T12:00:00,5Z"`, `"2024-02-29T23:59:60Z"`, `"2024-02-29T24:00:00Z"`, `"2024-02-29 12:00:00Z"`, `"2024-02-29T12:00:00.Z"`,
		`"2024-02-29T12:00:00+24:00"`, `"2024-02-29T12:00:00+23:59"`, `"2024-02-29T12:00:00+0100"`, `"10000-01-01T00:00:00Z"`, `0`, `{"seconds":1}`, `"2024-02-29T12:00Z"`,
	}
}

func durations() []string {
	return []string{
		`"1s"`, `"-1.5s"`, `"+1s"`, `".5s"`, `"1.s"`, `".s"`, `"s"`, `"-s"`, `"01s"`, `"315576000000s"`, `"-315576000000s"`, `"315576000001s"`, `"315576000000.9s"`, `"0.000000001s"`,
		`"1.0000000001s"`, `"99999999999999999999s"`, `"1S"`, `"1e2s"`, `"1"`, `1`, `"-0s"`, `"-.5s"`, `"1.5 s"`, `{"seconds":1}`, `"0.1234567890s"`,
	}
}

func fieldMasks() []string {
	return []string{`"a"`, `"a,b"`, `" a,fooBar "`, `"a,,b"`, `"foo_bar"`, `"a.b"`, `"A"`, `"1a"`, `"a b"`, `","`, `"ä"`, `""`, `"a."`, `".a"`, `"a.1b"`, `"fooBar.bazQux,x"`, `["a"]`, `{"paths":["a"]}`, `"a1"`, `"aB_c"`}
}

func anys() []string {
	return []string{
		`{}`, `{"@type":""}`, `{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}`, `{"@type":"type.googleapis.com/google.protobuf.Duration"}`,
		`{"@type":"type.googleapis.com/google.protobuf.Empty"}`, `{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}`, `{"@type":"type.googleapis.com/google.protobuf.Empty","x":1}`,
		`{"value":"1s","@type":"google.protobuf.Duration"}`, `{"@type":1}`, `{"typeUrl":"type.googleapis.com/google.protobuf.Empty"}`, `{"@type":"type.googleapis.com/no.Such"}`,
		`{"@type":"type.googleapis.com/google.protobuf.Any","value":{}}`, `{"@type":"type.googleapis.com/google.protobuf.Struct","value":{"a":1}}`, `{"@type":"x","@type":"y"}`,
		`{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s","value":"1s"}`, `{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":null}`,
	}
}
