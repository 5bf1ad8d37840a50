// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Upstream calls methods of the backend with encoded messages. It returns canonical
// errors, because only it knows whether the backend was reached; each error is made for
// its call, and the bridge adds to it. With an error the Answer may be nil, and has
// metadata at most. Implementations must not keep the bytes of in after a call, or
// return a part of them: the buffer is used again.
type Upstream interface {
	Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*Answer, *errmap.Error)
	// Stream calls a server-streaming method, and passes each message to each, in order,
	// before it returns. The bytes belong to each until each returns. An error of each
	// ends the call.
	Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func(message []byte) error) (*Answer, *errmap.Error)
	// Open begins an RPC of any kind, without waiting for a response. It ends with ctx.
	Open(ctx context.Context, m *catalog.Method, header http.Header) (BackendStream, *errmap.Error)
}

// BackendStream is an open RPC of the backend.
type BackendStream = backend.OpenRPC

// Answer is the backend's answer to one RPC.
type Answer = backend.Answer

// Native is a backend that implements outrigger.v1.ToolService, and so can offer more
// than RPCs. Its errors are canonical. Implementations are safe for concurrent use.
type Native interface {
	// CallTool runs a tool. If events is not nil, it receives the events of the call, in
	// order, before CallTool returns.
	CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error)
	// Ask calls the unary RPC of the tool API that takes the type of in: a
	// ReadResourceRequest gets a ResourceOutcome, and so on. The answer's Body is empty.
	Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error)
}

// OwnRules is a [Native] that speaks for several backends, and holds the headers of each to its own rules: those of [Backend] are not
// applied.
type OwnRules interface{ HasOwnRules() }

// Backend is what the bridge has of one of several backends. Its fields are those of [Options] of the same names.
type Backend struct {
	Upstream Upstream
	Native   Native
	Guard    *backend.Guard
	Metadata backend.MetadataRules
	OnBehalf OnBehalf
}

// sender calls the backends, in the name of the caller and behind their guards.
type sender struct {
	deadlines *deadlines
	buffers   *bytepool.Pool
	// views is nil where every caller sees everything.
	views *views

	// only is the one backend, and what is asked of none by name; named are several, by the names that methods have.
	only  Backend
	named map[string]*Backend
}

// at is the backend of a name; the empty one is the only one.
func (s *sender) at(name string) *Backend {
	if name == "" {
		return &s.only
	}
	return s.named[name]
}

// of is the backend of a call's tool.
func (s *sender) of(c *toolCall) *Backend { return s.at(c.tool.Method.Backend) }

// risk is what the guard of the backend has to know of a call.
func (s *sender) risk(c *toolCall) backend.GuardedCall {
	return backend.GuardedCall{
		Key:        c.tool.Name,
		Repeatable: c.tool.IsRepeatable() || c.previewed != nil || backend.IdempotencyKey(c.req.Header) != "",
		Hurried:    c.req.Timeout > 0 && c.req.Timeout < s.deadlines.allowed(c),
	}
}

// callRPC makes a unary call of the backend, and repeats it where that may be.
func (s *sender) callRPC(ctx context.Context, c *toolCall) *errmap.Error {
	at := s.of(c)
	header, risk := at.Metadata.OfCall(c.req.Header), s.risk(c)
	if risk.Repeatable && at.Guard != nil {
		risk.Claim = &c.claim
		ctx = backend.Repeatable(ctx, &c.claim)
	}
	if c.req.Procedure != "" && c.req.Timeout == 0 && c.tool.Timeout == 0 {
		// The default is the sidecar's. Typed callers and their service agree on deadlines.
		ctx = backend.PrivateDeadline(ctx)
	}
	var err *errmap.Error
	upstream := s.upstream(ctx, at, c)
	c.answer, err = guarded(ctx, at, c.req, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		c.sent = true
		return upstream.Call(ctx, c.tool.Method, c.wire, header)
	})
	return err
}

// guarded calls a backend for a request: in the name of its caller, behind the guard, and with a span for each attempt.
func guarded[T any](ctx context.Context, at *Backend, req *Request, risk backend.GuardedCall, call func(ctx context.Context) (T, *errmap.Error)) (out T, err *errmap.Error) {
	if ctx, err = at.onBehalf(ctx, req); err != nil {
		return out, err
	}
	if req.Span != nil {
		ctx, risk.Attempts = req.Span.Calls(ctx)
	}
	return backend.DoGuarded(ctx, at.Guard, risk, call)
}

// open opens an RPC that streams, and calls begin to start it. The circuit breaker hears of how the response begins, and not of its end,
// which may be days away. upstream is the backend, or what the caller sees of it.
func (s *sender) open(ctx context.Context, c *toolCall, upstream Upstream, header http.Header, begin func(ctx context.Context, stream BackendStream) *errmap.Error) *errmap.Error {
	at := s.of(c)
	_, err := guarded(ctx, at, c.req, backend.GuardedCall{Key: c.tool.Name, Hurried: true}, func(ctx context.Context) (none struct{}, err *errmap.Error) {
		stream, err := upstream.Open(ctx, c.tool.Method, header)
		if err == nil {
			err = begin(ctx, stream)
		}
		if err == nil {
			err = begun(ctx, stream)
		}
		return none, err
	})
	if err != nil && errors.Is(err, errSilent) {
		return nil
	}
	return err
}

// NoBackend is an Upstream for a sidecar that only shows tools: all calls are UNAVAILABLE.
type NoBackend struct{}

// Call implements [Upstream].
func (NoBackend) Call(context.Context, *catalog.Method, []byte, http.Header) (*Answer, *errmap.Error) {
	return nil, noBackend()
}

// Stream implements [Upstream].
func (NoBackend) Stream(context.Context, *catalog.Method, []byte, http.Header, func([]byte) error) (*Answer, *errmap.Error) {
	return nil, noBackend()
}

// Open implements [Upstream].
func (NoBackend) Open(context.Context, *catalog.Method, http.Header) (BackendStream, *errmap.Error) {
	return nil, noBackend()
}

func noBackend() *errmap.Error { return unavailable("no backend is configured; set --backend") }

// pump sends the messages that next returns on a stream, and ends the input with the error io.EOF. sent is called after each. A
// stream that has ended meanwhile is no error: receiving says how.
func (s *sender) pump(stream BackendStream, next func() (wire []byte, pooled bool, err error), sent func()) error {
	for {
		wire, pooled, err := next()
		if errors.Is(err, io.EOF) {
			stream.CloseSend()
			return nil
		}
		if err != nil {
			return err
		}
		err = stream.Send(wire)
		if pooled {
			s.buffers.Put(wire)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // its type says what is wrong
		}
		sent()
	}
}

// unary calls an RPC that takes one message and answers with one.
func (s *sender) unary(ctx context.Context, c *toolCall) *errmap.Error {
	return s.within(ctx, c, s.once)
}

// once calls the backend, and gives the bytes back that it was sent.
func (s *sender) once(ctx context.Context, c *toolCall) *errmap.Error {
	c.forgetArguments()
	err := s.callRPC(ctx, c)
	s.recycle(c)
	s.keepMetadata(c)
	return err
}

// recycle gives the wire bytes back: an Upstream keeps nothing of them.
func (s *sender) recycle(c *toolCall) {
	if c.pooled {
		s.buffers.Put(c.wire)
		c.wire, c.pooled = nil, false
	}
}

// within calls the backend under the shortest of the three deadlines.
func (s *sender) within(ctx context.Context, c *toolCall, invoke step) *errmap.Error {
	asked := time.Now()
	ctx, cancel := context.WithDeadline(ctx, asked.Add(s.deadlines.timeout(c)))
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	err := invoke(ctx, c)
	c.req.waited(asked)
	c.completed(err)
	return err
}

// keepMetadata keeps what of the backend's metadata the caller may see.
func (s *sender) keepMetadata(c *toolCall) {
	if c.answer != nil {
		at := s.of(c)
		c.resp.Header = at.Metadata.Outbound(c.answer.Header)
		c.resp.Trailer = at.trailer(c.req, c.answer.Trailer)
	}
}

// trailer is what of the backend's trailer the caller may see.
func (b *Backend) trailer(req *Request, trailer http.Header) http.Header {
	if req.Procedure != "" {
		return b.Metadata.Trailer(trailer)
	}
	return b.Metadata.Outbound(trailer)
}

// OnBehalf makes the credentials with which the backend is called in the name of a
// caller. Implementations are safe for concurrent use.
type OnBehalf interface {
	// Authorization returns the value of the Authorization header for calls of the caller in
	// ctx, or "" for none. Its errors are canonical.
	Authorization(ctx context.Context) (string, *errmap.Error)
}

// onBehalf returns a context in which the backend is called in the name of the caller.
// Attempts of a call share it, and so does a call that runs on as a task, because the
// caller's own token ends with its request.
func (b *Backend) onBehalf(ctx context.Context, req *Request) (context.Context, *errmap.Error) {
	if b.OnBehalf == nil || backend.HasAuthorization(ctx) {
		return ctx, nil
	}
	defer req.Span.Step(telemetry.StepCredentials, req.Span.Now())
	value, err := b.OnBehalf.Authorization(ctx)
	if err != nil {
		return ctx, err
	}
	return backend.WithAuthorization(ctx, value), nil
}

// BackendStatus returns the status of a failed call as the backend sent it; see [backend.StatusOf].
func (r *Response) BackendStatus() *connect.Error { return backend.StatusOf(r.Err) }
