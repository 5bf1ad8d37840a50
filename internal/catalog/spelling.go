// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// spelling is one of the ways in which ProtoJSON lets a message be written. A schema that people declare knows one of
// them; a typed caller chose none.
type spelling struct{ protoNames, withDefaults, plainIntegers bool }

// spellings has the plain form first, which is what a refusal is explained with.
func spellings() []spelling {
	var out []spelling
	for i := range 8 {
		out = append(out, spelling{protoNames: i&1 != 0, withDefaults: i&2 != 0, plainIntegers: i&4 != 0})
	}
	return out
}

// CheckRequest validates the request of a typed caller, in wire bytes that the transcoder has checked, against the
// declared input schema. It accepts the request if the schema accepts any of its JSON spellings, because a JSON caller
// could have sent that one. Otherwise the violations are those of the plain form. An error means that the check itself
// failed.
func (t *Tool) CheckRequest(ctx context.Context, wire []byte) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Input == nil {
		return nil, nil
	}
	if t.Native {
		return nil, errors.New("a native tool takes no request but the arguments")
	}
	message := dynamicpb.NewMessage(t.Method.Descriptor.Input())
	if err := (proto.UnmarshalOptions{Resolver: t.Declared.types}).Unmarshal(wire, message); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	var plain []schema.Violation
	for i, s := range spellings() {
		text, err := s.write(message, t.Declared.types)
		if err != nil {
			return nil, err
		}
		if t.Input.Wrapped {
			text = wrapValue(text)
		}
		found, err := t.Declared.Input.ValidateContext(ctx, text)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if i == 0 {
			plain = found
		}
	}
	return plain, nil
}

func (s spelling) write(m *dynamicpb.Message, types *Types) ([]byte, error) {
	text, err := protojson.MarshalOptions{
		Resolver: types, UseProtoNames: s.protoNames, EmitDefaultValues: s.withDefaults, AllowPartial: true,
	}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write request as JSON: %w", err)
	}
	if !s.plainIntegers {
		return text, nil
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("read request as JSON: %w", err)
	}
	return json.Marshal(plainMessage(value, m.Descriptor()))
}

// plainMessage takes the quotes off the 64-bit integers of a message, all the way down. Messages whose JSON has a form
// of its own stay as they are.
func plainMessage(value any, md protoreflect.MessageDescriptor) any {
	switch md.FullName() {
	case "google.protobuf.Int64Value", "google.protobuf.UInt64Value":
		return plainInteger(value)
	}
	members, ok := value.(map[string]any)
	if !ok || md.FullName().Parent() == "google.protobuf" {
		return value
	}
	for name, member := range members {
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			fd = md.Fields().ByTextName(name)
		}
		if fd != nil {
			members[name] = plainField(member, fd)
		}
	}
	return members
}

func plainField(value any, fd protoreflect.FieldDescriptor) any {
	switch v := value.(type) {
	case []any:
		if !fd.IsList() {
			break
		}
		for i, entry := range v {
			v[i] = plainValue(entry, fd)
		}
		return v
	case map[string]any:
		if !fd.IsMap() {
			break
		}
		for key, entry := range v {
			v[key] = plainValue(entry, fd.MapValue())
		}
		return v
	}
	return plainValue(value, fd)
}

func plainValue(value any, fd protoreflect.FieldDescriptor) any {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return plainMessage(value, fd.Message())
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return plainInteger(value)
	}
	return value
}

func plainInteger(value any) any {
	if text, ok := value.(string); ok {
		return json.Number(text)
	}
	return value
}
