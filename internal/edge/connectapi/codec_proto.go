// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// protoMessages is the binary codec of the contract's own messages. It refuses fields that the contract does not have, as
// the JSON codec does: a request of which a part is not understood must not run as if that part were not there.
type protoMessages struct{}

// Name returns the codec's name in content types.
func (protoMessages) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (protoMessages) Marshal(v any) ([]byte, error) { return protoMessages{}.MarshalAppend(nil, v) }

// MarshalAppend lets Connect reuse a buffer.
func (protoMessages) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("binary codec: cannot marshal %T", v)
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// MarshalStable is for GET requests, which caches compare.
func (protoMessages) MarshalStable(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("binary codec: cannot marshal %T", v)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// IsBinary reports that the encoding is not text.
func (protoMessages) IsBinary() bool { return true }

// Unmarshal reads a message. It stores an error in the message; see refuseMessage.
func (protoMessages) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("binary codec: cannot unmarshal into %T", v)
	}
	if err := proto.Unmarshal(data, m); err != nil {
		proto.Reset(m)
		refuseMessage(m, errmap.Wrap(errmap.ParseError, err, errmap.WithViolations(errmap.Violation{
			Keyword: "encoding", Message: "The bytes are not an encoding of " + string(m.ProtoReflect().Descriptor().FullName()) + ".",
		})))
		return nil
	}
	var found []errmap.Violation
	unknownFields("", m.ProtoReflect(), &found)
	if len(found) == 0 {
		return nil
	}
	refuseMessage(m, errmap.New(errmap.InvalidParams, errmap.WithViolations(found...)))
	return nil
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
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field.Message() == nil {
			return true
		}
		at := schema.AppendPointer(path, string(field.Name()))
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
		return len(*found) < maxNamed
	})
}
