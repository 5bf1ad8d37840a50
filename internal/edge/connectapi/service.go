// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Options configure the edge. Zero fields mean their defaults.
type Options struct {
	// Limits bound incoming messages; MaxBytes is the read limit of every handler.
	// Results are bounded where the backend is called.
	Limits jsonrpc.Limits
	// MaxConcurrent bounds the concurrent calls on one Exchange stream.
	MaxConcurrent int
	// Events is the bus behind Publish and Subscribe. If it is nil, they return
	// unimplemented.
	Events EventBus
	// MaxStreams bounds the total number of Subscribe, WatchTools and Exchange streams.
	// WriteTimeout bounds how long one message of any stream may wait for its reader.
	MaxStreams   int
	WriteTimeout time.Duration
	// RedactTyped redacts the backend's own statuses in the typed pass-through too, and
	// gives them the canonical details. Without it they pass as they came.
	RedactTyped bool
}

// EventBus accepts events and delivers them to subscribers. [event.Memory] is the bus of
// a single process.
type EventBus interface {
	// Publish queues an event for the subscribers that want it, and returns their
	// number. It does not wait for readers, and copies what it keeps. Its error is an
	// *[event.TooLargeError], [event.ErrTooLarge], [event.ErrNoMethod], [event.ErrClosed],
	// [event.ErrUnavailable] or the context's. On an error, the event is not delivered;
	// after the last two it may be.
	Publish(ctx context.Context, e event.Event) (subscribers int, err error)
	// Subscribe returns the events from now on that match f. Its error is
	// [event.ErrFull], [event.ErrClosed], [event.ErrUnavailable] or an *[event.FilterError].
	Subscribe(f event.Filter) (event.Subscription, error)
	// SubscribeAfter returns the events behind a sequence that match f, kept ones and
	// those to come. Its error is also [event.ErrNotKept] or an *[event.GapError].
	SubscribeAfter(ctx context.Context, f event.Filter, after uint64) (event.Subscription, error)
}

var _ EventBus = (*event.Memory)(nil)

// Service implements ToolService over a bridge. Registration is for operators only;
// see [Service.AdminHandler].
type Service struct {
	bridge    *bridge.Bridge
	rpc       *dialect.Handler
	opts      Options
	announcer announcer
	// life ends with Close, and lasting counts the streams that wait for that.
	life             context.Context
	end              context.CancelFunc
	lasting          atomic.Int64
	crowded          atomic.Uint64
	snapshot, change atomic.Pointer[step]
}

var _ outriggerv1connect.ToolServiceHandler = (*Service)(nil)

// New returns a Service in front of rpc.
func New(rpc *dialect.Handler, o Options) *Service {
	o.Limits = o.Limits.WithDefaults()
	defaults.Fill(&o.MaxConcurrent, defaults.MaxPipelinedRequests)
	defaults.Fill(&o.MaxStreams, defaults.MaxStreams)
	defaults.Fill(&o.WriteTimeout, defaults.WriteTimeout)
	s := &Service{bridge: rpc.Bridge, rpc: rpc, opts: o}
	s.announcer, _ = rpc.Bridge.Catalogs().(announcer)
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Handler returns the path prefix and the handler of the tool API.
func (s *Service) Handler() (string, http.Handler) {
	path, handler := outriggerv1connect.NewToolServiceHandler(s, s.handlerOptions()...)
	return path, s.plainTool(s.counted(false, s.watched(handler)))
}

func (s *Service) handlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{
		s.bounds(), withMessages(s.opts.Limits),
		connect.WithInterceptors(spans{s}, s.newRuleInterceptor(), streamFraming{s}),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, p any) error {
			return errmap.ToConnect(s.bridge.Panicked(p), errmap.About{})
		}),
	}
}

// ListTools lists the visible tools, page by page.
func (s *Service) ListTools(ctx context.Context, req *connect.Request[outriggerv1.ListToolsRequest]) (*connect.Response[outriggerv1.ListToolsResponse], error) {
	list := s.request(ctx, bridge.OpList, req)
	list.Cursor, list.PageSize = req.Msg.Cursor, int(req.Msg.GetPageSize())
	list.List = listForm(req.Msg.GetCompact())
	if list.PageSize == 0 {
		list.PageSize = math.MaxInt32 // as many as the sidecar gives
	}
	resp := s.run(ctx, list)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	return connect.NewResponse(toolsPage(resp)), nil
}

// GetTool returns the description of one tool with both its schemas.
func (s *Service) GetTool(ctx context.Context, req *connect.Request[outriggerv1.GetToolRequest]) (*connect.Response[outriggerv1.Tool], error) {
	get := s.request(ctx, bridge.OpGet, req)
	get.Tool, get.Version = req.Msg.GetToolName(), req.Msg.GetVersion()
	resp := s.run(ctx, get)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	return connect.NewResponse(toolMessage(resp.Tool, true)), nil
}

// request is the neutral form of an RPC that has no id.
func (s *Service) request(ctx context.Context, op bridge.Op, req connect.AnyRequest) *bridge.Request {
	return &bridge.Request{
		Op: op, Origin: s.bridge.Flights().NewOrigin(), Header: req.Header(),
		Caller: bridge.CallerOf(ctx, req.Peer().Addr), Peer: req.Peer().Addr, Era: era, Transport: req.Peer().Protocol, Route: req.Spec().Procedure,
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

// RegisterTool is for operators only. Callers of the main listener have no identity
// that could make them operators.
func (s *Service) RegisterTool(context.Context, *connect.Request[outriggerv1.RegisterToolRequest]) (*connect.Response[outriggerv1.RegisterToolResponse], error) {
	return nil, adminOnly("RegisterTool")
}

// connectError is what a failed request shows.
func connectError(resp *bridge.Response) *connect.Error {
	err := errmap.ToConnect(resp.Err, resp.About(nil))
	if resp.NamesNothing() {
		err = withCode(connect.CodeNotFound, err)
	}
	copyHeader(err.Meta(), resp.Header)
	copyHeader(err.Meta(), resp.Trailer)
	return err
}

// withCode is an error with another code.
func withCode(code connect.Code, err *connect.Error) *connect.Error {
	out := connect.NewError(code, errors.New(err.Message()))
	for _, d := range err.Details() {
		out.AddDetail(d)
	}
	copyHeader(out.Meta(), err.Meta())
	return out
}

func copyHeader(dst, src http.Header) {
	for name, values := range src {
		dst[name] = append(dst[name], values...)
	}
}
