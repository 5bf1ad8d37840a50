// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// PassThrough serves /<backend service>/<method>: a caller's generated client calls
// the backend through the same pipeline as every other caller. Protobuf stays
// Protobuf; Connect's JSON codec takes the path of JSON arguments. Paths that are not
// tools are passed to the next handler.
//
// The catalog determines the existing procedures for each call. One handler serves
// them all, and keeps nothing about a procedure that was removed.
type PassThrough struct {
	service *Service
	unary   http.Handler
	// reading is unary for methods without side effects, which Connect also calls by GET.
	reading http.Handler
	// client, server and duplex serve the kinds of streams.
	client, server, duplex http.Handler
	// plain answers plain requests, and leaves the others to the two.
	plain http.Handler
	next  http.Handler
}

// PassThrough returns the handler. Paths that are not tools are passed to next.
func (s *Service) PassThrough(next http.Handler) *PassThrough {
	p := &PassThrough{service: s, next: next}
	options := append(s.handlerOptions(),
		connect.WithCodec(protoCodec{}), connect.WithCodec(codecJSON), connect.WithCodec(codecJSONCharset))
	p.unary = s.counted(true, connect.NewUnaryHandler("", p.call, options...))
	p.reading = s.counted(true, connect.NewUnaryHandler("", p.call, append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects))...))
	p.openStreams()
	p.plain = &unary{service: s, call: p.plainTyped, next: http.HandlerFunc(p.serveOther)}
	return p
}

// procedureKey is the context key of the procedure that was called.
type procedureKey struct{}

// ServeHTTP implements http.Handler.
func (p *PassThrough) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	procedure := r.URL.Path
	cat := p.service.bridge.Catalogs().Current()
	if cat == nil {
		p.next.ServeHTTP(w, r)
		return
	}
	tool, ok := cat.ByProcedure(procedure)
	if !ok {
		p.next.ServeHTTP(w, r)
		return
	}
	if isStreaming(tool) {
		p.stream(tool).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), procedureKey{}, procedure)))
		return
	}
	p.plain.ServeHTTP(w, r)
}

// serveOther answers requests that are not plain. The tool may have gone in the meantime.
func (p *PassThrough) serveOther(w http.ResponseWriter, r *http.Request) {
	procedure := r.URL.Path
	handler := p.unary
	if cat := p.service.bridge.Catalogs().Current(); cat != nil {
		if tool, ok := cat.ByProcedure(procedure); ok && hasNoSideEffects(tool) {
			handler = p.reading
		}
	}
	handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), procedureKey{}, procedure)))
}

// hasNoSideEffects holds for methods that say so themselves (idempotency_level). What an overlay says of a tool does not
// count: generated clients know only the descriptor, and so do the caches between them and the sidecar.
func hasNoSideEffects(tool *catalog.Tool) bool {
	options, ok := tool.Method.Descriptor.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

func isStreaming(tool *catalog.Tool) bool {
	return tool.Method.ClientStreaming || tool.Method.ServerStreaming
}

// call runs one typed call.
func (p *PassThrough) call(ctx context.Context, req *connect.Request[message]) (*connect.Response[message], error) {
	r := rpcOf(req)
	r.procedure, _ = ctx.Value(procedureKey{}).(string)
	resp, err := p.callTyped(ctx, r, received(req))
	if err != nil {
		return nil, err
	}
	attribute(ctx, resp)
	result := message(resp.Result)
	out := connect.NewResponse(&result)
	copyHeader(out.Header(), resp.Header)
	copyHeader(out.Trailer(), resp.Trailer)
	return out, nil
}

// callTyped is call in front of whatever reads and writes its messages. The response has
// no error where err is nil.
func (p *PassThrough) callTyped(ctx context.Context, r *rpc, arguments bridge.Payload) (*bridge.Response, error) {
	if failed := p.tooDeep(arguments); failed != nil {
		return nil, p.service.refusedTyped(ctx, r, failed)
	}
	resp := p.service.run(ctx, &bridge.Request{
		Op:        bridge.OpCall,
		Origin:    p.service.bridge.Flights().NewOrigin(),
		Procedure: r.procedure,
		Arguments: arguments,
		Timeout:   timeLeft(ctx),
		Header:    r.header,
		Caller:    bridge.CallerOf(ctx, r.peer),
		Peer:      r.peer,
		Transport: r.protocol,
		Route:     r.procedure,
	})
	if resp.Err != nil {
		return nil, p.typedError(ctx, r.protocol, resp)
	}
	return resp, nil
}

// typedError is what a caller of the backend's own method is shown: a status of the backend as it came, and otherwise that of
// [connectError]. Connect has a word for each code, and no numbers: a number that only gRPC has is unknown there, and stands in
// the details of a redacted error.
func (p *PassThrough) typedError(ctx context.Context, protocol string, resp *bridge.Response) *connect.Error {
	if own := resp.BackendStatus(); own != nil && !p.service.opts.RedactTyped {
		passedAsItCame(ctx)
		if protocol == connect.ProtocolConnect && resp.Err.BackendStatus != 0 {
			own = withCode(connect.CodeUnknown, own)
		}
		copyHeader(own.Meta(), resp.Header)
		copyHeader(own.Meta(), resp.Trailer)
		return own
	}
	err := connectError(resp)
	if status := resp.Err.BackendStatus; status != 0 && protocol != connect.ProtocolConnect {
		return withCode(connect.Code(status), err)
	}
	return err
}

// asItCame is set once the response is a status of the backend, to which nothing is added.
type asItCame struct{ is bool }

type asItCameKey struct{}

func passedAsItCame(ctx context.Context) {
	if mark, ok := ctx.Value(asItCameKey{}).(*asItCame); ok {
		mark.is = true
	}
}

// tooDeep refuses JSON that is nested deeper than the limit of all messages, where
// that is below the one that arguments have anyway.
func (p *PassThrough) tooDeep(m bridge.Payload) *errmap.Error {
	limits := p.service.opts.Limits
	if m.Encoding != bridge.EncodingJSON || limits.MaxDepth >= defaults.MaxJSONDepth {
		return nil
	}
	// Whatever else is wrong with it is found, and better told, with the schema.
	if f := jsonrpc.Check(m.Bytes, limits); f != nil && f.Over == jsonrpc.OverDepth {
		return dialect.FaultError(f)
	}
	return nil
}

// received is the message that came. The gRPC protocols do not hand an empty one
// to the codec, so that only the content type says how it was encoded.
func received(req *connect.Request[message]) bridge.Payload {
	if req.Msg.Bytes == nil && !strings.Contains(req.Header().Get("Content-Type"), "+json") {
		return bridge.Payload{Encoding: bridge.EncodingProtobuf, Bytes: []byte{}}
	}
	return bridge.Payload(*req.Msg)
}

// NotFound returns a handler for unknown paths, which responds in the protocol of
// the client. RPC clients get an RPC error, all others a 404 with a sentence.
func (s *Service) NotFound() http.Handler {
	// Without its header a Connect request is any request with JSON, or any GET.
	writer := connect.NewErrorWriter(connect.WithRequireConnectProtocolHeader())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if writer.IsSupported(r) {
			failed := s.notFound()
			s.bridge.Stats().HTTPRefused(edgeOf(r, false), failed.Code)
			shown := errmap.ToConnect(failed, errmap.About{})
			s.toldWhy(r, shown)
			_ = writer.Write(w, r, shown)
			return
		}
		s.bridge.Stats().HTTPRefused(stats.EdgeOther, errmap.MethodNotFound)
		http.Error(w, "Unknown path. MCP is at /mcp, JSON-RPC at /rpc, the tool API at /outrigger.v1.ToolService/.", http.StatusNotFound)
	})
}

// Refuse responds to a request that was refused before it was read, in the client's
// protocol. RPC clients get an RPC error, all others the status and the canonical
// error as JSON.
func (s *Service) Refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	s.bridge.Stats().HTTPRefused(s.EdgeOf(r), err.Code)
	s.toldRefusal(r, err)
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		writeRefusal(w, r, writer, err)
		return
	}
	shown := err.JSONRPC(errmap.About{})
	shown.SetHeaders(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(shown.HTTPStatus)
	_, _ = w.Write(jsonrpc.AppendError(nil, jsonrpc.ID{}, true, shown.Code, shown.Message, shown.Data))
}

// notFound does not say that there is no such method before it can be known.
func (s *Service) notFound() *errmap.Error {
	if s.bridge.Catalogs().Current() == nil {
		return errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: the tool catalog has not been loaded yet"))
	}
	return errmap.New(errmap.MethodNotFound, errmap.Message("Method not found: no tool or service has this path"))
}
