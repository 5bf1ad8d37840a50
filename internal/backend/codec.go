// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// rawMessage is a message in its wire form.
type rawMessage []byte

// rawCodec passes encoded messages through as they are. It is registered under
// the name of the Protobuf codec, so that all protocols label them as such, and
// falls back to Protobuf for the RPC library's own messages (the status message
// with error details).
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (c rawCodec) Marshal(message any) ([]byte, error) {
	return c.MarshalAppend(nil, message)
}

func (rawCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case *rawMessage:
		return append(dst, *m...), nil
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(dst, m)
	default:
		return nil, fmt.Errorf("%T is neither encoded nor a Protobuf message", message)
	}
}

// MarshalStable is for HTTP GET, which needs equal bytes for equal messages. It returns
// the given bytes unchanged, so they are only as stable as the caller made them.
func (rawCodec) MarshalStable(message any) ([]byte, error) {
	switch m := message.(type) {
	case *rawMessage:
		return append([]byte(nil), *m...), nil
	case proto.Message:
		return proto.MarshalOptions{Deterministic: true}.Marshal(m)
	default:
		return nil, fmt.Errorf("%T is neither encoded nor a Protobuf message", message)
	}
}

// Unmarshal copies data, because its buffer returns to a pool.
func (rawCodec) Unmarshal(data []byte, message any) error {
	switch m := message.(type) {
	case *rawMessage:
		*m = append((*m)[:0], data...)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, m)
	default:
		return fmt.Errorf("%T is neither encoded nor a Protobuf message", message)
	}
}

func (rawCodec) IsBinary() bool { return true }
