// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// jsonMessages is the JSON codec of the contract's own messages. It writes as Connect's does, and reads strictly: see
// contractReader.
type jsonMessages struct {
	name   string
	limits jsonrpc.Limits
}

// withMessages replaces Connect's codecs.
func withMessages(limits jsonrpc.Limits) connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(jsonMessages{string(codecJSON), limits}), connect.WithCodec(jsonMessages{string(codecJSONCharset), limits}),
		connect.WithCodec(protoMessages{}))
}

// Name returns the codec's name in content types.
func (c jsonMessages) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c jsonMessages) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend lets Connect reuse a buffer.
func (jsonMessages) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("JSON codec: cannot marshal %T", v)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// MarshalStable is for GET requests, which caches compare. protojson varies the
// white space between its members from build to build.
func (c jsonMessages) MarshalStable(v any) ([]byte, error) {
	raw, err := c.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// IsBinary reports that the encoding is text.
func (jsonMessages) IsBinary() bool { return false }

// Unmarshal reads a message. It stores an error in the message, because an error of a codec shows the text of
// the library and has no details; see refuseMessage.
func (c jsonMessages) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("JSON codec: cannot unmarshal into %T", v)
	}
	refuseMessage(m, readContract(data, m, c.limits))
	return nil
}
