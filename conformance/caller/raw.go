// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Encoding is how an RPC's messages are written; its value is its name in content
// types.
type Encoding string

// The encodings that the sidecar takes.
const (
	Proto Encoding = "proto"
	JSON  Encoding = "json"
)

// Raw calls one procedure with bytes where the message is, whatever they say:
// what no generated client would send. It is safe for concurrent use.
type Raw struct {
	client *http.Client
	rpc    *connect.Client[payload, payload]
}

// NewRaw returns a Raw for a procedure at a host:port. Without options it speaks
// Connect; gRPC needs h2.
func NewRaw(addr, procedure string, e Encoding, h2 bool, options ...connect.ClientOption) *Raw {
	client := Client(h2)
	return &Raw{client: client, rpc: connect.NewClient[payload, payload](client, "http://"+addr+procedure,
		append(options, connect.WithCodec(rawCodec(e)))...)}
}

// Close closes the idle connections.
func (r *Raw) Close() { r.client.CloseIdleConnections() }

// Call makes one call; the data of the answer are the bytes that came.
func (r *Raw) Call(ctx context.Context, message []byte) Answer {
	res, err := r.rpc.CallUnary(ctx, connect.NewRequest(&payload{bytes: message}))
	if err != nil {
		return connectAnswer(err)
	}
	return Answer{Data: res.Msg.bytes, Header: res.Header(), Trailer: res.Trailer()}
}

// payload is an undecoded message.
type payload struct{ bytes []byte }

// rawCodec passes payloads on as they are. Messages it encodes and decodes as
// ever, because connect-go reads the details of errors with the codec of the call.
type rawCodec Encoding

// Name implements connect.Codec.
func (c rawCodec) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (rawCodec) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *payload:
		return v.bytes, nil
	case proto.Message:
		return proto.Marshal(v)
	}
	return nil, fmt.Errorf("raw codec: cannot marshal %T", v)
}

// Unmarshal implements connect.Codec. The bytes are the library's own, so they are copied.
func (rawCodec) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *payload:
		v.bytes = append([]byte{}, data...)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, v)
	}
	return fmt.Errorf("raw codec: cannot unmarshal into %T", v)
}
