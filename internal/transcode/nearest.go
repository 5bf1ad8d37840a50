// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// ProtoJSON has no form for some values that an answer may hold, and protojson gives up the whole answer for one of them. Here
// the one value is written in the nearest form that output schemas admit, with a note, and the rest as always.

// Noted is what there is to say about JSON that ToJSONNoting wrote. The zero Noted says nothing.
type Noted struct {
	// Unknown are the URLs of Any types that the resolver did not know, without duplicates and at most 16. In the JSON, such
	// values are {"@type", "value"}, with the bytes in base64.
	Unknown []string
	// Odd are the first 16 values that ProtoJSON has no form for, and More is the number of the others.
	Odd  []Odd
	More int
}

// Odd is a value that ProtoJSON has no form for.
type Odd struct {
	// Path is the JSON Pointer of the value.
	Path string
	// What says what the value is and how it is shown.
	What string
}

// oddValue is an Odd whose path is still a position in the output.
type oddValue struct {
	at   int
	what string
}

// note notes a value whose form begins at a position of the output.
func (w *writer) note(at int, what string) {
	if len(w.odd) >= maxNoted {
		w.more++
		return
	}
	w.odd = append(w.odd, oddValue{at, what})
}

// forget drops the notes about what was behind a position of the output, which was cut off there.
func (w *writer) forget(from int) {
	for len(w.odd) > 0 && w.odd[len(w.odd)-1].at >= from {
		w.odd = w.odd[:len(w.odd)-1]
	}
}

// located turns positions into paths.
func located(odd []oddValue, doc []byte) []Odd {
	out := make([]Odd, 0, len(odd))
	for _, o := range odd {
		out = append(out, Odd{Path: schema.PointerAt(doc, o.at), What: o.what})
	}
	return out
}

// appendNearest writes wire bytes that the wire decoder reads and protojson has no form for. The writer of the plan needs every
// field in one place, which an encoder sees to. ok is false where no plan serves.
func (m *Message) appendNearest(dst, wire []byte) (out []byte, noted Noted, ok bool) {
	msg, err := m.decode(wire)
	if err != nil {
		return dst, Noted{}, false
	}
	plain, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(msg)
	if err != nil {
		return dst, Noted{}, false
	}
	return m.writeAs(nil, dst, plain, true)
}

// word writes a literal of JSON for a value without a form.
func (w *writer) word(literal, what string) bool {
	if w.nearest {
		w.note(len(w.out), what)
		w.out = append(w.out, literal...)
	}
	return w.nearest
}

// raw writes the fields of a Timestamp or Duration, as Protobuf's text format does.
func (w *writer) raw(seconds, nanos int64, what string) bool {
	return w.word(`"seconds:`+strconv.FormatInt(seconds, 10)+" nanos:"+strconv.FormatInt(nanos, 10)+`"`, what)
}

// pathAsItIs writes a path of the FieldMask whose form begins at start.
func (w *writer) pathAsItIs(path []byte, start int) bool {
	if !w.nearest {
		return false
	}
	if n := len(w.odd); n == 0 || w.odd[n-1].at != start {
		w.note(start, "a FieldMask with paths that have no lowerCamelCase form, shown as they are")
	}
	quoted := jsontext.AppendString(nil, string(path))
	w.out = append(w.out, quoted[1:len(quoted)-1]...)
	return true
}

// mended writes text that is not UTF-8, in place of what the output has from a position on.
func (w *writer) mended(text []byte, before int) bool {
	w.out = w.out[:before]
	if w.nearest {
		w.note(before, "text that is not UTF-8, shown with U+FFFD in place of the invalid bytes")
		w.out = jsontext.AppendString(w.out, strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	return w.nearest
}

// packedBytes writes an Any as its bytes.
func (w *writer) packedBytes(url string, value []byte, what string) bool {
	if !w.nearest {
		return false
	}
	w.note(len(w.out), what)
	w.out = append(w.out, '{')
	if url != "" {
		w.out = append(jsontext.AppendString(append(w.out, `"`+typeMember+`":`...), url), ',')
	}
	w.out = append(w.out, `"value":"`...)
	w.out = append(base64.StdEncoding.AppendEncode(w.out, value), '"', '}')
	return true
}

// reencoded is the content of an Any with every field in one place.
func (w *writer) reencoded(mt protoreflect.MessageType, value []byte) ([]byte, error) {
	inner := mt.New().Interface()
	read := proto.UnmarshalOptions{AllowPartial: true, Resolver: w.resolver, RecursionLimit: maxWireDepth}
	if err := read.Unmarshal(value, inner); err != nil {
		return nil, err //nolint:wrapcheck // only whether it is there counts
	}
	return proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(inner)
}
