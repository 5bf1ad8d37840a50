// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// ArgumentsJSON returns the JSON of a request that came as Protobuf, for records, also where
// it breaks the rules of its message. It is nil for nil, and if the bytes are no encoding of
// the message.
func (t *Tool) ArgumentsJSON(wire []byte) []byte {
	if t == nil || t.Native {
		return nil
	}
	return recordedJSON(t.In, t.Method.Descriptor.Input(), wire)
}

// ResultJSON is ArgumentsJSON for a response.
func (t *Tool) ResultJSON(wire []byte) []byte {
	if t == nil || t.Native {
		return nil
	}
	return recordedJSON(t.Out, t.Method.Descriptor.Output(), wire)
}

func recordedJSON(m *transcode.Message, md protoreflect.MessageDescriptor, wire []byte) []byte {
	if m != nil {
		if text, err := m.ToJSON(nil, wire); err == nil {
			return text
		}
	}
	message := dynamicpb.NewMessage(md)
	if err := proto.Unmarshal(wire, message); err != nil {
		return nil
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil
	}
	return text
}
