// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxDecodeError bounds, in bytes, what is said about JSON that is no message of
// the contract. The library that reads it quotes the value that it stumbled over,
// however long that is, and over gRPC the text travels in a header.
const maxDecodeError = 512

// jsonMessages is the JSON codec of the contract's own messages: Connect's, but
// for the length of its errors. Its value is its name.
type jsonMessages string

// withJSONMessages replaces Connect's JSON codecs.
func withJSONMessages() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(jsonMessages(codecJSON)), connect.WithCodec(jsonMessages(codecJSONCharset)))
}

// Name is the codec's name in content types.
func (c jsonMessages) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (c jsonMessages) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend lets Connect use a buffer again.
func (jsonMessages) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("JSON codec: cannot marshal %T", v)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// MarshalStable is for requests by GET, which caches compare. protojson varies
// the white space between its members from build to build.
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

// IsBinary says that the encoding is text.
func (jsonMessages) IsBinary() bool { return false }

// Unmarshal reads a message. Members that it does not have are ignored, as in
// Protobuf, so that callers may be newer than the sidecar.
func (jsonMessages) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("JSON codec: cannot unmarshal into %T", v)
	}
	if len(data) == 0 {
		return errors.New("there is no JSON: a request without members is {}")
	}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
	if err == nil {
		return nil
	}
	return fmt.Errorf("not the JSON of %s: %s", m.ProtoReflect().Descriptor().FullName(), shortened(err.Error()))
}

// shortened cuts a text at a border of its characters.
func shortened(text string) string {
	if len(text) <= maxDecodeError {
		return text
	}
	cut := maxDecodeError
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.TrimSpace(text[:cut]) + " ..."
}
