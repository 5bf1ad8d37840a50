// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
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

// jsonSuffix ends the name of every field that holds JSON as bytes.
const jsonSuffix = "_json"

// The messages that stand for JSON.
const (
	structName protoreflect.FullName = "google.protobuf.Struct"
	valueName  protoreflect.FullName = "google.protobuf.Value"
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

// The names of codecs in content types. Connect takes the one with a parameter, which many HTTP clients add, for a codec apart.
const (
	codecProto       = "proto"
	codecJSON        = "json"
	codecJSONCharset = "json; charset=utf-8"
	codecJSONUTF8    = "json; charset=utf8" // no registered name, and sent by many
)

// withMessages replaces Connect's codecs by stricter ones: a request of which a part is not understood must not run as if that
// part were not there.
func withMessages(limits jsonrpc.Limits) connect.HandlerOption {
	readJSON := func(data []byte, m proto.Message) *errmap.Error { return readContract(data, m, limits) }
	return connect.WithHandlerOptions(
		connect.WithCodec(contractCodec{codecJSON, readJSON, protojson.MarshalOptions{}.MarshalAppend}),
		connect.WithCodec(contractCodec{codecJSONCharset, readJSON, protojson.MarshalOptions{}.MarshalAppend}),
		connect.WithCodec(contractCodec{codecJSONUTF8, readJSON, protojson.MarshalOptions{}.MarshalAppend}),
		connect.WithCodec(contractCodec{codecProto, readProto, proto.MarshalOptions{}.MarshalAppend}))
}

// contractCodec is a codec of the contract's own messages.
type contractCodec struct {
	name  string // in content types
	read  func(data []byte, m proto.Message) *errmap.Error
	write func(dst []byte, m proto.Message) ([]byte, error)
}

// Name implements [connect.Codec].
func (c contractCodec) Name() string { return c.name }

// Marshal implements [connect.Codec].
func (c contractCodec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend lets the library use its own buffers.
func (c contractCodec) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%s codec: cannot marshal %T", c.name, v)
	}
	return c.write(dst, m)
}

// Unmarshal reads a message. It stores an error in the message, because an error of a codec shows the text of
// the library and has no details; see refuseMessage.
func (c contractCodec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%s codec: cannot unmarshal into %T", c.name, v)
	}
	refuseMessage(m, c.read(data, m))
	return nil
}

// readProto reads the binary form of a message of the contract. It refuses fields that the contract does not have, as
// readContract does.
func readProto(data []byte, m proto.Message) *errmap.Error {
	if err := proto.Unmarshal(data, m); err != nil {
		proto.Reset(m)
		return errmap.Wrap(errmap.ParseError, err, errmap.WithViolations(errmap.Violation{
			Keyword: "encoding", Message: "The bytes are not an encoding of " + string(m.ProtoReflect().Descriptor().FullName()) + ".",
		}))
	}
	var found []errmap.Violation
	unknownFields("", m.ProtoReflect(), &found)
	if len(found) == 0 {
		return nil
	}
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(found...))
}

// unknownFields collects fields that the contract does not have, by their numbers: names do not travel in binary.
func unknownFields(path string, m protoreflect.Message, found *[]errmap.Violation) {
	for rest := m.GetUnknown(); len(rest) > 0 && len(*found) < maxNamed; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			break
		}
		rest = rest[n:]
		*found = append(*found, errmap.Violation{
			Path: path, Keyword: keywordUnknown,
			Message: fmt.Sprintf("wanted a known field of %s, found field number %d, unknown in this version", m.Descriptor().FullName(), number),
		})
	}
	fields := m.Descriptor().Fields()
	for i := 0; i < fields.Len() && len(*found) < maxNamed; i++ {
		field := fields.Get(i)
		if field.Message() == nil || !m.Has(field) {
			continue
		}
		v, at := m.Get(field), schema.AppendPointer(path, string(field.Name()))
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				v.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
					unknownFields(schema.AppendPointer(at, key.String()), v.Message(), found)
					return len(*found) < maxNamed
				})
			}
		case field.IsList():
			for i := range v.List().Len() {
				unknownFields(fmt.Sprintf("%s/%d", at, i), v.List().Get(i).Message(), found)
			}
		default:
			unknownFields(at, v.Message(), found)
		}
	}
}

// unread is why a message was refused when it was read, on its way from the codec to the handler. Connect hands an error
// of a codec to the caller as it is, before any interceptor, and gives the codec nothing of the request but the message. So
// it travels as an unknown field of the message, of which codecs leave no other.
type unread struct {
	Code       errmap.Code        `json:"code"`
	Message    string             `json:"message,omitempty"`
	Violations []errmap.Violation `json:"violations,omitempty"`
	Limit      errmap.Limit       `json:"limit,omitempty"`
}

// refusalField is the number of that field, the largest there is.
const refusalField = protowire.MaxValidNumber

// refuseMessage keeps an error in a message, nil for none. It replaces what a caller may have sent in the same place.
func refuseMessage(m proto.Message, failed *errmap.Error) {
	if failed == nil {
		return
	}
	raw, err := json.Marshal(unread{Code: failed.Code, Message: failed.Message, Violations: failed.Violations, Limit: failed.Limit})
	if err != nil {
		raw = []byte(`{"code":"` + string(errmap.ParseError) + `"}`)
	}
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, refusalField, protowire.BytesType), raw))
}

// refusalOf takes the error out of a message; nil where there is none.
func refusalOf(m proto.Message) *errmap.Error {
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 {
		return nil
	}
	m.ProtoReflect().SetUnknown(nil)
	var r unread
	_, _, n := protowire.ConsumeTag(unknown)
	raw, size := protowire.ConsumeBytes(unknown[max(n, 0):])
	if n < 0 || size < 0 || json.Unmarshal(raw, &r) != nil {
		return errmap.New(errmap.ParseError)
	}
	return &errmap.Error{Code: r.Code, Message: r.Message, Violations: r.Violations, Limit: r.Limit}
}

// maxShown is the longest name that is shown of one that came from outside: what the contract admits as a name.
const maxShown = 128

func clip(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return s
}
