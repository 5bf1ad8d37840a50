// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/bridge/schema"
	"github.com/outrigger-mcp/outrigger/bridge/transcode"
	"github.com/outrigger-mcp/outrigger/errmap"
)

const (
	// maxNamed bounds how many faults of one message are named: one typing error seldom comes alone, and ten are enough.
	maxNamed = 10
	// maxAround is how many levels the contract's own messages have around a free-form payload, at most.
	maxAround = 10
	// keywordUnknown is JSON Schema's word for a member that is not known.
	keywordUnknown = "additionalProperties"
)

// readContract reads JSON as a message of the contract, by the rules of the JSON-RPC edges: no duplicate names, bounded
// depth, and no member that the contract does not have. A free-form payload (arguments, params, result, data, meta) keeps
// its text, so that its numbers stay what they are; as a Struct they would become doubles.
//
// The error may come with a message in which all is set that could be read.
func readContract(data []byte, m proto.Message, limits jsonrpc.Limits) *errmap.Error {
	md := m.ProtoReflect().Descriptor()
	if len(data) == 0 {
		return errmap.New(errmap.ParseError, errmap.WithViolations(errmap.Violation{
			Keyword: "json", Message: "There is no JSON: a request without members is {}.",
		}))
	}
	// A payload is held to the limit by itself, where it is used; around it are the contract's own messages.
	limits.MaxDepth += maxAround
	if f := jsonrpc.Check(data, limits); f != nil {
		return bridge.FaultError(f)
	}
	r := contractReader{in: data, out: make([]byte, 0, len(data)+len(data)/2)}
	r.pos = r.space(0)
	r.message(md, "")
	err := protojson.Unmarshal(r.out, m)
	switch {
	case len(r.found) > 0:
		return errmap.New(errmap.InvalidParams, errmap.WithViolations(r.found...))
	case err != nil:
		proto.Reset(m)
		return notOfTheContract(md, r.out, err)
	}
	return nil
}

// notOfTheContract says in our own words why JSON is no message of the contract.
func notOfTheContract(md protoreflect.MessageDescriptor, doc []byte, cause error) *errmap.Error {
	found := []errmap.Violation{{Keyword: "type", Message: "The JSON is not that of " + string(md.FullName()) + "."}}
	message, err := transcode.Compile(md, transcode.Options{MaxViolations: maxNamed})
	if err == nil {
		_, err = message.ToWire(nil, doc)
	}
	var refused *transcode.InputError
	if errors.As(err, &refused) && refused.Structural {
		found = found[:0]
		for _, v := range refused.Violations {
			if v.Keyword == "protojson" {
				v.Keyword, v.Message = "type", "The value does not fit the field."
			}
			found = append(found, errmap.Violation(v))
		}
	}
	return errmap.Wrap(errmap.InvalidParams, cause, errmap.WithViolations(found...))
}

// contractReader copies JSON that has been checked, with what has to be changed before protojson reads it.
type contractReader struct {
	in    []byte
	pos   int
	out   []byte
	found []errmap.Violation
}

// message copies a value that is a message.
func (r *contractReader) message(md protoreflect.MessageDescriptor, path string) {
	if r.in[r.pos] != '{' || schema.IsWellKnown(md) {
		r.copyValue()
		return
	}
	r.members(func(name string) func() {
		field := md.Fields().ByJSONName(name)
		if field == nil {
			field = md.Fields().ByTextName(name)
		}
		if field == nil {
			r.unknown(md, path, name)
			return nil
		}
		return func() { r.field(field, schema.AppendPointer(path, name)) }
	}, func(name string) []byte {
		field := md.Fields().ByJSONName(name)
		if field == nil {
			field = md.Fields().ByTextName(name)
		}
		if text := textForm(field); text != nil && r.in[r.pos] != 'n' {
			return []byte(`"` + text.JSONName() + `"`)
		}
		return nil
	})
}

// field copies the value of a field.
func (r *contractReader) field(field protoreflect.FieldDescriptor, path string) {
	switch {
	case r.in[r.pos] == 'n':
		r.copyValue() // null
	case textForm(field) != nil:
		if r.in[r.pos] != '{' && field.Message().FullName() == structName {
			r.fault(errmap.Violation{Path: path, Keyword: "type", Message: string(field.Name()) + " is not a JSON object"})
		}
		start := r.pos
		r.skipValue()
		r.out = append(base64.StdEncoding.AppendEncode(append(r.out, '"'), trimSpace(r.in[start:r.pos])), '"')
	case field.IsMap() && field.MapValue().Message() != nil && r.in[r.pos] == '{':
		r.members(func(key string) func() {
			return func() { r.message(field.MapValue().Message(), schema.AppendPointer(path, key)) }
		}, nil)
	case field.IsList() && field.Message() != nil && r.in[r.pos] == '[':
		r.items(field.Message(), path)
	case field.Message() != nil && !field.IsMap() && !field.IsList():
		r.message(field.Message(), path)
	default:
		r.copyValue()
	}
}

// textForm is the field that holds the same payload as JSON text, nil for a field that is none for people.
func textForm(field protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	if field == nil || field.ContainingOneof() == nil || field.Message() == nil {
		return nil
	}
	if name := field.Message().FullName(); name != structName && name != valueName {
		return nil
	}
	text := field.ContainingOneof().Fields().ByName(field.Name() + jsonSuffix)
	if text == nil || text.Kind() != protoreflect.BytesKind {
		return nil
	}
	return text
}

// unknown notes a member that the message does not have.
func (r *contractReader) unknown(md protoreflect.MessageDescriptor, path, name string) {
	if len(r.found) >= maxNamed {
		return // what it is like costs, and nobody will read it
	}
	var known []string
	for i := range md.Fields().Len() {
		known = append(known, md.Fields().Get(i).JSONName())
	}
	text := "wanted a known member of " + string(md.FullName()) + ", found " + strconv.Quote(clip(name))
	if near := schema.Nearest(name, known); near != "" {
		text += "; did you mean " + strconv.Quote(near) + "?"
	}
	r.fault(errmap.Violation{Path: schema.AppendPointer(path, clip(name)), Keyword: keywordUnknown, Message: text})
}

func (r *contractReader) fault(v errmap.Violation) {
	if len(r.found) < maxNamed {
		r.found = append(r.found, v)
	}
}

// members copies an object; choose returns how to copy the value of a member, or nil to leave the member out. rename, where
// it is set, returns another name for a member whose value is next, in quotes, or nil.
func (r *contractReader) members(choose func(name string) func(), rename func(name string) []byte) {
	r.out = append(r.out, '{')
	r.pos = r.space(r.pos + 1)
	for first := true; r.in[r.pos] != '}'; r.pos = r.space(r.pos) {
		if r.in[r.pos] == ',' {
			r.pos = r.space(r.pos + 1)
		}
		start := r.pos
		r.skipString()
		quoted := r.in[start:r.pos]
		name := plainName(quoted)
		r.pos = r.space(r.space(r.pos) + 1) // behind the colon
		copyIt := choose(name)
		if copyIt == nil {
			r.skipValue()
			continue
		}
		if !first {
			r.out = append(r.out, ',')
		}
		first = false
		if rename != nil {
			if other := rename(name); other != nil {
				quoted = other
			}
		}
		r.out = append(append(r.out, quoted...), ':')
		copyIt()
	}
	r.pos++
	r.out = append(r.out, '}')
}

func (r *contractReader) items(md protoreflect.MessageDescriptor, path string) {
	r.out = append(r.out, '[')
	r.pos = r.space(r.pos + 1)
	for i := 0; r.in[r.pos] != ']'; i, r.pos = i+1, r.space(r.pos) {
		if r.in[r.pos] == ',' {
			r.out = append(r.out, ',')
			r.pos = r.space(r.pos + 1)
		}
		r.message(md, path+"/"+strconv.Itoa(i))
	}
	r.pos++
	r.out = append(r.out, ']')
}

func (r *contractReader) copyValue() {
	start := r.pos
	r.skipValue()
	r.out = append(r.out, r.in[start:r.pos]...)
}

// skipValue passes over one value, and the space behind a number or word.
func (r *contractReader) skipValue() {
	for depth := 0; r.pos < len(r.in); r.pos++ {
		switch r.in[r.pos] {
		case '"':
			r.skipString()
			if depth == 0 {
				return
			}
			r.pos--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			if depth--; depth == 0 {
				r.pos++
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		}
	}
}

func (r *contractReader) skipString() {
	for r.pos++; r.in[r.pos] != '"'; r.pos++ {
		if r.in[r.pos] == '\\' {
			r.pos++
		}
	}
	r.pos++
}

func (r *contractReader) space(pos int) int {
	for pos < len(r.in) && isSpace(r.in[pos]) {
		pos++
	}
	return pos
}

// plainName decodes the name of a member.
func plainName(quoted []byte) string {
	var name string
	if bytes.IndexByte(quoted, '\\') < 0 || json.Unmarshal(quoted, &name) != nil {
		return string(quoted[1 : len(quoted)-1])
	}
	return strings.ToValidUTF8(name, "\ufffd")
}
