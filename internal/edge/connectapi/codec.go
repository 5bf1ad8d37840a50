// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
)

// message is what a pass-through handler sends and receives: encoded bytes and
// the encoding that they came in.
type message bridge.Payload

// protoCodec passes encoded Protobuf through. Messages it encodes and decodes as
// ever: gRPC sends the status of a failed call, details included, with the
// handler's own codec.
type protoCodec struct{}

// Name returns the codec's name in content types.
func (protoCodec) Name() string { return "proto" }

// Marshal returns the bytes unchanged.
func (protoCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return proto.Marshal(m)
	}
	return marshalMessage(v, bridge.EncodingProtobuf)
}

// Unmarshal copies the bytes, because the buffer that holds them is reused.
func (protoCodec) Unmarshal(data []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		return proto.Unmarshal(data, m)
	}
	return unmarshalMessage(data, v, bridge.EncodingProtobuf)
}

// IsBinary reports that the encoding is not text.
func (protoCodec) IsBinary() bool { return true }

// jsonCodec passes JSON through. Its value is its name.
type jsonCodec string

// The names of JSON in content types. Connect takes the one with a parameter,
// which many HTTP clients add, for a codec of its own.
const (
	codecJSON        jsonCodec = "json"
	codecJSONCharset jsonCodec = "json; charset=utf-8"
)

// Name returns the codec's name in content types.
func (c jsonCodec) Name() string { return string(c) }

// Marshal returns the bytes unchanged.
func (jsonCodec) Marshal(v any) ([]byte, error) { return marshalMessage(v, bridge.EncodingJSON) }

// Unmarshal copies the bytes.
func (jsonCodec) Unmarshal(data []byte, v any) error {
	return unmarshalMessage(data, v, bridge.EncodingJSON)
}

func marshalMessage(v any, want bridge.Encoding) ([]byte, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("pass-through codec: cannot marshal %T", v)
	}
	if m.Encoding != want {
		return nil, fmt.Errorf("pass-through codec: result has encoding %d, want %d", m.Encoding, want)
	}
	return m.Bytes, nil
}

func unmarshalMessage(data []byte, v any, encoding bridge.Encoding) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("pass-through codec: cannot unmarshal into %T", v)
	}
	m.Encoding = encoding
	m.Bytes = append([]byte{}, data...)
	return nil
}
