// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
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
			Keyword: "json", Message: "The body is empty: a request without members is {}.",
		}))
	}
	// A payload is held to the limit by itself, where it is used; around it are the contract's own messages.
	limits.MaxDepth += maxAround
	if f := jsonrpc.Check(data, limits); f != nil {
		return dialect.FaultError(f)
	}
	var r contractReader
	r.In, r.Pos, r.Out = data, jsontext.SkipSpace(data, 0), make([]byte, 0, len(data)+len(data)/2)
	r.message(md, "")
	err := protojson.Unmarshal(r.Out, m)
	switch {
	case len(r.found) > 0:
		return errmap.New(errmap.InvalidParams, errmap.WithViolations(r.found...))
	case err != nil:
		proto.Reset(m)
		return notOfTheContract(md, r.Out, err)
	}
	return nil
}

// notOfTheContract says in our own words why JSON is no message of the contract.
func notOfTheContract(md protoreflect.MessageDescriptor, doc []byte, cause error) *errmap.Error {
	found := []errmap.Violation{{Keyword: "type", Message: "The JSON is not a valid " + string(md.FullName()) + "."}}
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
	jsontext.Rewriter
	found []errmap.Violation
}

// message copies a value that is a message.
func (r *contractReader) message(md protoreflect.MessageDescriptor, path string) {
	if r.Next() != '{' || schema.IsWellKnown(md) {
		r.Copy()
		return
	}
	r.Members(func(quoted []byte) ([]byte, func()) {
		name := plainName(quoted)
		field := md.Fields().ByJSONName(name)
		if field == nil {
			field = md.Fields().ByTextName(name)
		}
		if field == nil {
			r.unknown(md, path, name)
			return nil, nil
		}
		if text := textForm(field); text != nil && r.Next() != 'n' {
			quoted = []byte(`"` + text.JSONName() + `"`)
		}
		return quoted, func() { r.field(field, schema.AppendPointer(path, name)) }
	})
}

// field copies the value of a field.
func (r *contractReader) field(field protoreflect.FieldDescriptor, path string) {
	switch {
	case r.Next() == 'n':
		r.Copy() // null
	case textForm(field) != nil:
		if r.Next() != '{' && field.Message().FullName() == structName {
			r.fault(errmap.Violation{Path: path, Keyword: "type", Message: string(field.Name()) + " is not a JSON object"})
		}
		start := r.Pos
		r.Skip()
		r.Out = append(base64.StdEncoding.AppendEncode(append(r.Out, '"'), r.In[start:r.Pos]), '"')
	case field.IsMap() && field.MapValue().Message() != nil && r.Next() == '{':
		r.Members(func(key []byte) ([]byte, func()) {
			return key, func() { r.message(field.MapValue().Message(), schema.AppendPointer(path, plainName(key))) }
		})
	case field.IsList() && field.Message() != nil && r.Next() == '[':
		r.Items(func(i int) { r.message(field.Message(), path+"/"+strconv.Itoa(i)) })
	case field.Message() != nil && !field.IsMap() && !field.IsList():
		r.message(field.Message(), path)
	default:
		r.Copy()
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
		return // what it is like costs, and it will not be read
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

// plainName decodes the name of a member.
func plainName(quoted []byte) string {
	return strings.ToValidUTF8(jsontext.PlainName(quoted), "\ufffd")
}
