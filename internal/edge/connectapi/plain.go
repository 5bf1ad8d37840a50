// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

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
	msg, err := s.readCall(ctx, r, body, isJSON)
	if err != nil {
		return nil, err
	}
	resp, err := s.callTool(ctx, r, msg)
	if err != nil {
		return nil, err
	}
	appendTo := appendOutcome
	if isJSON {
		appendTo = appendOutcomeJSON
	}
	return &unaryAnswer{resp: resp, appendTo: appendTo}, nil
}

// readCall reads a ToolCall. One that is not short goes the way that it would go in the
// library: its codec, and the rules of the contract.
func (s *Service) readCall(ctx context.Context, r *rpc, body []byte, isJSON bool) (*outriggerv1.ToolCall, error) {
	var codec connect.Codec = protoMessages{}
	var short *outriggerv1.ToolCall
	if isJSON {
		codec = jsonMessages{limits: s.opts.Limits}
		short = readShortJSON(body, s.opts.Limits)
	} else {
		short = readShortProto(body)
	}
	if short != nil {
		return short, nil
	}
	msg := &outriggerv1.ToolCall{}
	if err := codec.Unmarshal(body, msg); err != nil {
		return nil, err
	}
	return msg, s.checkRules(ctx, r, msg)
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
	return &unaryAnswer{resp: resp, appendTo: func(dst []byte, resp *bridge.Response) ([]byte, error) {
		if resp.Result.Encoding != encoding {
			return nil, fmt.Errorf("pass-through: result has encoding %d, want %d", resp.Result.Encoding, encoding)
		}
		return append(dst, resp.Result.Bytes...), nil
	}}, nil
}
