// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/event"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/boundedgzip"
)

// Options configure the edge. Zero fields take their defaults.
type Options struct {
	// Limits bound what comes in; MaxBytes is the read limit of every handler.
	// Results are bounded where the backend is called.
	Limits jsonrpc.Limits
	// MaxConcurrent bounds the calls that run at a time on one Exchange stream.
	MaxConcurrent int
	// Events is the bus behind Publish and Subscribe; without one they answer
	// unimplemented.
	Events event.Bus
	// MaxStreams bounds the streams of Subscribe and WatchTools together,
	// Patience how long one message of them may wait for its reader.
	MaxStreams int
	Patience   time.Duration
}

// DefaultMaxConcurrent is how many calls of one Exchange stream run at a time.
const DefaultMaxConcurrent = 1024

// Service implements ToolService over a bridge. What it does not serve yet
// answers unimplemented and says so.
type Service struct {
	notYet
	bridge    *bridge.Bridge
	opts      Options
	announcer announcer
	// life ends with Close, and lasting counts the streams that wait for that.
	life             context.Context
	end              context.CancelFunc
	lasting          atomic.Int64
	snapshot, change atomic.Pointer[step]
}

var _ outriggerv1connect.ToolServiceHandler = (*Service)(nil)

// New returns the service in front of b.
func New(b *bridge.Bridge, o Options) *Service {
	o.Limits = o.Limits.WithDefaults()
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = DefaultMaxStreams
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	s := &Service{bridge: b, opts: o}
	s.announcer, _ = b.Catalogs().(announcer)
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Handler returns the path prefix and the handler of the tool API.
func (s *Service) Handler() (string, http.Handler) {
	path, handler := outriggerv1connect.NewToolServiceHandler(s, s.handlerOptions()...)
	return path, s.watched(handler)
}

func (s *Service) handlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{
		s.bounds(),
		connect.WithInterceptors(newRuleInterceptor()),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, p any) error {
			return errmap.ToConnect(s.bridge.Panicked(p), errmap.About{})
		}),
	}
}

// bounds limits what a handler reads, before and after decompression.
func (s *Service) bounds() connect.HandlerOption {
	limit := s.opts.Limits.MaxBytes
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(limit),
		connect.WithCompression("gzip",
			func() connect.Decompressor { return boundedgzip.New(limit) },
			func() connect.Compressor { return gzip.NewWriter(io.Discard) }),
	)
}

// CallTool runs one tool. The deadline of the RPC is the caller's timeout.
func (s *Service) CallTool(ctx context.Context, req *connect.Request[outriggerv1.ToolCall]) (*connect.Response[outriggerv1.ToolOutcome], error) {
	arguments, failed := s.arguments(req.Msg)
	if failed != nil {
		return nil, errmap.ToConnect(failed, errmap.About{ToolCall: true})
	}
	resp := s.bridge.Handle(ctx, &bridge.Request{
		Op:        bridge.OpCall,
		Origin:    s.bridge.Flights().NewOrigin(),
		Tool:      req.Msg.GetToolName(),
		Version:   req.Msg.GetVersion(),
		Arguments: bridge.Payload{Bytes: arguments},
		Timeout:   timeLeft(ctx),
		Header:    req.Header(),
		Caller:    bridge.CallerAddress(req.Peer().Addr),
		Transport: req.Peer().Protocol,
		Route:     req.Spec().Procedure,
	})
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	out := connect.NewResponse(outcome(resp.Result.Bytes))
	copyHeader(out.Header(), resp.Header)
	copyHeader(out.Trailer(), resp.Trailer)
	return out, nil
}

// arguments returns the JSON text of a call's arguments in either form. Bytes
// are checked here, because they have not been through the envelope's parser.
func (s *Service) arguments(call *outriggerv1.ToolCall) ([]byte, *errmap.Error) {
	raw, failed := freeForm(call.GetArgumentsJson(), call.GetArguments(), s.opts.Limits)
	if failed != nil {
		return nil, failed.at("/arguments_json")
	}
	if raw == nil || jsonrpc.IsNull(raw) {
		return nil, nil
	}
	if !jsonrpc.IsObject(raw) {
		return nil, errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: "/arguments_json", Keyword: "type", Message: "arguments_json is not a JSON object",
		}))
	}
	return raw, nil
}

// ListTools lists the visible tools. All fit on one page, so no cursor was ever
// handed out.
func (s *Service) ListTools(ctx context.Context, req *connect.Request[outriggerv1.ListToolsRequest]) (*connect.Response[outriggerv1.ListToolsResponse], error) {
	resp := s.bridge.Handle(ctx, s.request(bridge.OpList, req))
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	return s.page(resp.Catalog, req.Msg)
}

// GetTool describes one tool with both its schemas.
func (s *Service) GetTool(ctx context.Context, req *connect.Request[outriggerv1.GetToolRequest]) (*connect.Response[outriggerv1.Tool], error) {
	get := s.request(bridge.OpGet, req)
	get.Tool, get.Version = req.Msg.GetToolName(), req.Msg.GetVersion()
	resp := s.bridge.Handle(ctx, get)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	return connect.NewResponse(toolMessage(resp.Tool, true)), nil
}

// request is the neutral form of an RPC that has no id.
func (s *Service) request(op bridge.Op, req connect.AnyRequest) *bridge.Request {
	return &bridge.Request{
		Op: op, Origin: s.bridge.Flights().NewOrigin(), Header: req.Header(),
		Caller: bridge.CallerAddress(req.Peer().Addr), Transport: req.Peer().Protocol, Route: req.Spec().Procedure,
	}
}

// timeLeft is the rest of the caller's deadline, zero where there is none. An
// expired one is a nanosecond, so that it is not taken for none.
func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), 1)
}

// connectError is what a failed request shows.
func connectError(resp *bridge.Response) *connect.Error {
	err := errmap.ToConnect(resp.Err, resp.About(nil))
	copyHeader(err.Meta(), resp.Trailer)
	return err
}

func copyHeader(dst, src http.Header) {
	for name, values := range src {
		dst[name] = append(dst[name], values...)
	}
}
