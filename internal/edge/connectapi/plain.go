// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// plainTool answers plain calls of CallTool, and leaves every other request of the tool API
// to next.
func (s *Service) plainTool(next http.Handler) http.Handler {
	calls := &unary{service: s, procedure: outriggerv1connect.ToolServiceCallToolProcedure, call: s.plainCall, next: next}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == outriggerv1connect.ToolServiceCallToolProcedure {
			calls.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainCall runs CallTool.
func (s *Service) plainCall(ctx context.Context, r *rpc, body []byte, isJSON bool) (*unaryAnswer, error) {
	msg := &outriggerv1.ToolCall{}
	if err := s.readCall(body, isJSON, msg); err != nil {
		return nil, err
	}
	if err := s.checkRules(r.protocol, msg); err != nil {
		return nil, err
	}
	resp, err := s.callTool(ctx, r, msg)
	if err != nil {
		return nil, err
	}
	return &unaryAnswer{resp: resp, appendTo: func(dst []byte) ([]byte, error) {
		if isJSON {
			return jsonMessages{}.MarshalAppend(dst, resp.ToolOutcome())
		}
		return proto.MarshalOptions{}.MarshalAppend(dst, resp.ToolOutcome())
	}}, nil
}

// readCall reads a ToolCall as the library would, with the same codecs.
func (s *Service) readCall(body []byte, isJSON bool, into *outriggerv1.ToolCall) error {
	if isJSON {
		return jsonMessages{limits: s.opts.Limits}.Unmarshal(body, into)
	}
	return protoMessages{}.Unmarshal(body, into)
}

// plainTyped runs a typed call.
func (p *PassThrough) plainTyped(ctx context.Context, r *rpc, body []byte, isJSON bool) (*unaryAnswer, error) {
	encoding := bridge.EncodingProtobuf
	if isJSON {
		encoding = bridge.EncodingJSON
	}
	resp, err := p.callTyped(ctx, r, bridge.Payload{Encoding: encoding, Bytes: body})
	if err != nil {
		return nil, err
	}
	return &unaryAnswer{resp: resp, appendTo: func(dst []byte) ([]byte, error) {
		if resp.Result.Encoding != encoding {
			return nil, fmt.Errorf("pass-through: result has encoding %d, want %d", resp.Result.Encoding, encoding)
		}
		return append(dst, resp.Result.Bytes...), nil
	}}, nil
}
