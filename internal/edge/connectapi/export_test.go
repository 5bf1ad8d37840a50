// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Lasting is how many streams of Subscribe and WatchTools are open.
func (s *Service) Lasting() int64 { return s.lasting.Load() }

// Library is the edge without what reads plain calls: the RPC library reads them all.
func (s *Service) Library() http.Handler {
	mux := http.NewServeMux()
	path, handler := outriggerv1connect.NewToolServiceHandler(s, s.handlerOptions()...)
	mux.Handle(path, s.counted(false, s.watched(handler)))
	typed := s.PassThrough(s.NotFound())
	typed.plain = http.HandlerFunc(typed.serveOther)
	mux.Handle("/", typed)
	return mux
}

// ReadShort reads a ToolCall that is a name and arguments; nil for any other.
func ReadShort(body []byte, isJSON bool, limits jsonrpc.Limits) *outriggerv1.ToolCall {
	if isJSON {
		return readShortJSON(body, limits)
	}
	return readShortProto(body)
}

// ReadLong reads a ToolCall as the codecs and the rules of the contract do.
func (s *Service) ReadLong(body []byte, isJSON bool) (*outriggerv1.ToolCall, error) {
	call := &outriggerv1.ToolCall{}
	var err error
	if isJSON {
		err = jsonMessages{limits: s.opts.Limits}.Unmarshal(body, call)
	} else {
		err = protoMessages{}.Unmarshal(body, call)
	}
	return call, errors.Join(err, s.checkRules(context.Background(), &rpc{protocol: connect.ProtocolGRPC}, call))
}

// AppendOutcome is the message of an outcome.
func AppendOutcome(dst []byte, resp *bridge.Response, isJSON bool) ([]byte, error) {
	if isJSON {
		return appendOutcomeJSON(dst, resp)
	}
	return appendOutcome(dst, resp)
}

// ReadPrefixed reads the one message of a gRPC body.
func ReadPrefixed(body io.Reader, most int) (message, consumed []byte, err error) {
	return readPrefixed(body, most)
}

// GRPCTimeout and ConnectTimeout read how long a caller waits.
func GRPCTimeout(text string) (time.Duration, bool)    { return grpcTimeout(text) }
func ConnectTimeout(text string) (time.Duration, bool) { return connectTimeout(text) }

// PlainTool answers plain calls of CallTool, and leaves every other request to next.
func (s *Service) PlainTool(next http.Handler) http.Handler { return s.plainTool(next) }
