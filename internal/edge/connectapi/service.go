// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/notify"
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

// EventBus accepts events and delivers them to subscribers. [notify.Bus] is the bus of
// a single process.
type EventBus interface {
	// Publish queues an event for the subscribers that want it, and returns their
	// number. It does not wait for readers, and copies what it keeps. Its error is an
	// *[notify.TooLargeError], [notify.ErrTooLarge], [notify.ErrNoMethod], [notify.ErrClosed],
	// [notify.ErrUnavailable] or the context's. On an error, the event is not delivered;
	// after the last two it may be.
	Publish(ctx context.Context, e notify.Event) (subscribers int, err error)
	// Subscribe returns the events from now on whose method matches a pattern. Its error is
	// [notify.ErrFull], [notify.ErrClosed], [notify.ErrUnavailable] or an *[notify.FilterError].
	Subscribe(methods []string) (notify.EventSubscription, error)
	// SubscribeAfter returns the events behind a sequence, kept ones and
	// those to come. Its error is also [notify.ErrNotKept] or an *[notify.GapError].
	SubscribeAfter(ctx context.Context, methods []string, after uint64) (notify.EventSubscription, error)
}

var _ EventBus = (*notify.Bus)(nil)

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

// New returns a Service in front of a bridge. rpc takes the messages of its Exchange.
func New(b *bridge.Bridge, rpc *dialect.Handler, o Options) *Service {
	o.Limits = o.Limits.WithDefaults()
	defaults.Fill(&o.MaxConcurrent, defaults.MaxPipelinedRequests)
	defaults.Fill(&o.MaxStreams, defaults.MaxStreams)
	defaults.Fill(&o.WriteTimeout, defaults.WriteTimeout)
	s := &Service{bridge: b, rpc: rpc, opts: o}
	s.announcer, _ = b.Catalogs().(announcer)
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Handler returns the path prefix and the handler of the tool API.
func (s *Service) Handler() (string, http.Handler) {
	path, handler := outriggerv1connect.NewToolServiceHandler(s, s.handlerOptions(interceptor{service: s})...)
	return path, s.front(false, false, handler)
}

func (s *Service) handlerOptions(i interceptor) []connect.HandlerOption {
	return []connect.HandlerOption{
		bounds(s.opts.Limits.MaxBytes), withMessages(s.opts.Limits), connect.WithInterceptors(i),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, p any) error {
			return errmap.ToConnect(s.bridge.Panicked(p), errmap.About{})
		}),
	}
}

// era is what the audit trail calls the protocol of the tool API.
const era = outriggerv1connect.ToolServiceName

// rpc is what is known of an RPC beside its message.
type rpc struct {
	header                    http.Header
	peer, protocol, procedure string
}

func rpcOf(req connect.AnyRequest) *rpc {
	return &rpc{header: req.Header(), peer: req.Peer().Addr, protocol: req.Peer().Protocol, procedure: req.Spec().Procedure}
}

func rpcOfStream(conn connect.StreamingHandlerConn) *rpc {
	return &rpc{header: conn.RequestHeader(), peer: conn.Peer().Addr, protocol: conn.Peer().Protocol, procedure: conn.Spec().Procedure}
}

// rpcOfHTTP is for requests that no handler of the library has read.
func rpcOfHTTP(r *http.Request) *rpc {
	return &rpc{header: r.Header, peer: r.RemoteAddr, protocol: protocolOf(r), procedure: r.URL.Path}
}

// request is the neutral form of an RPC, as far as it is the same for all of them.
func (r *rpc) request(ctx context.Context) *bridge.Request {
	return &bridge.Request{Header: r.header, Caller: bridge.CallerOf(ctx, r.peer), Peer: r.peer, Transport: r.protocol, Route: r.procedure}
}

// request is the neutral form of an RPC that has no id.
func (s *Service) request(ctx context.Context, op bridge.Op, req connect.AnyRequest) *bridge.Request {
	out := rpcOf(req).request(ctx)
	out.Op, out.Origin, out.Era = op, s.bridge.Flights().NewOrigin(), era
	return out
}

// run runs a request of the tool API or of the typed pass-through, and leaves its line in
// the run record.
func (s *Service) run(ctx context.Context, req *bridge.Request) *bridge.Response {
	end := s.record(ctx, req)
	resp := s.bridge.Handle(ctx, req)
	end(resp)
	return resp
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
