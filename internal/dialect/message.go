// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"math"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// Inbound is one JSON-RPC message as read by an edge.
type Inbound struct {
	Dialect Dialect
	// Origin is the scope of the message's id.
	Origin  correlate.Origin
	Message *jsonrpc.Message
	// Header has the HTTP headers. It is nil if the transport has none (stdio), and
	// then no rule about headers applies.
	Header http.Header
	// Caller identifies the caller; see [bridge.Request].
	Caller string
	// Peer is the address of the caller's connection, or "stdio".
	Peer string
	// Transport and Route describe the origin of the message, for logs.
	Transport, Route string
	// Session is the legacy session that the message names; nil where it names
	// none.
	Session *session.Session
	// Opened receives the session that the message opens, and has to release it; nil
	// if no session can be kept.
	Opened func(*session.Session)
	// Paced is set if the edge applies backpressure. Then a call waits for a slot
	// without a limit, and is not rejected because of a full queue.
	Paced bool
	// Follows is set if later messages of the origin can bring items of a call ([Handler.EndItems] ends them).
	Follows bool
	// Yield is called when the request begins to wait for its client or for changes,
	// because these may arrive behind requests that wait for this one. It may be
	// called more than once, and may be nil.
	Yield func()
	// Quiet is called when nothing will be sent for a while; it may be nil.
	Quiet func()
	// Send sends notifications of the request, each one JSON-RPC message, compact and
	// on one line, in order and before the reply. Send owns the bytes. An error means
	// that the caller no longer reads. Nil means that none can be sent.
	Send func(message []byte) error

	// HTTP is the request that the message came in; nil without tracing, and where there is none.
	HTTP *telemetry.HTTPRequest
	// Start is when the message began to arrive, for its span; zero is with the HTTP request, or now.
	Start time.Time
	// Stream is the span of the stream that the message came on, where messages have spans beside it.
	Stream *telemetry.Span

	// span is that of the message; nil without tracing. resp is what has become of its request; nil before that.
	span *telemetry.Span
	resp *bridge.Response
	// found is what meta found when it has looked.
	found     []byte
	hasLooked bool
	// context is the same as the carrier of trace context.
	context metaContext
	// flight is the request that the message became; nil until then.
	flight *bridge.Flight
	// ctx is that of the message, for the audit trail; nil for one whose caller is not known.
	ctx context.Context //nolint:containedctx // a message lives as long as its handling
}

// Abort ends the work of the request that the message became, because its caller has gone
// away; for edges that notice it when they send. It does nothing before there is one.
func (in *Inbound) Abort(cause error) {
	if in.flight != nil {
		in.flight.Abort(cause)
	}
}

// era is the revision of the caller's protocol. It has to be known for a message that
// is refused too, so it may be what the message says.
func (in *Inbound) era() string {
	switch in.Dialect {
	case Modern:
		return VersionModern
	case Legacy:
		if in.Session != nil && in.Session.Context().GetProtocolVersion() != "" {
			return in.Session.Context().GetProtocolVersion()
		}
		if version := in.Header.Get(headerVersion); IsLegacyVersion(version) {
			return version
		}
		return unknownRevision
	case Canonical:
	}
	return Canonical.String()
}

// unknownRevision is the era of a legacy message that names no revision.
const unknownRevision = "legacy"

// statedRevision is the revision of MCP that the message or its session names, or "" if it has none that is known.
func (in *Inbound) statedRevision() string {
	if version := in.era(); in.Dialect != Canonical && version != unknownRevision {
		return version
	}
	return ""
}

// meta is the _meta of the message's params, nil where there is none. It is looked
// for once: in a large message it is behind a large value.
func (in *Inbound) meta() []byte {
	if !in.hasLooked {
		in.found, _ = in.Message.Param("_meta")
		in.hasLooked = true
	}
	return in.found
}

// HandleMessage handles one JSON-RPC message in its dialect. Invalid messages get
// a reply too; a notification never runs a tool. The caller owns the reply's
// message. It is safe for concurrent use and returns when the request has ended.
func (h *Handler) HandleMessage(ctx context.Context, in *Inbound) Reply {
	return *h.BeginMessage(ctx, in)()
}

// begin is TakeMessage without the run record.
func (h *Handler) begin(ctx context.Context, in *Inbound) (reply *Reply, run func() *Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply, run = ready(h.refuse(in, h.runner.Panicked(p, bridge.RequestID(in.Message.ID))))
		}
	}()
	in.ctx = ctx
	msg := in.Message
	switch {
	case msg.Kind == jsonrpc.KindSuccess || msg.Kind == jsonrpc.KindError:
		return ready(h.strayResponse(in))
	case msg.Fault != nil:
		refused := h.refuse(in, FaultError(msg.Fault))
		refused.IsUnasked = msg.Kind == jsonrpc.KindNotification && msg.Fault.Path == "/params"
		return ready(refused)
	case msg.Kind == jsonrpc.KindRequest:
		return h.request(ctx, in)
	}
	return ready(h.notification(ctx, in))
}

// ready is a reply that needs no run.
func ready(r Reply) (reply *Reply, run func() *Reply) { return &r, nil }

// strayResponse refuses a response: nothing here waits for one. Its id is not
// echoed, because it is an id of our own requests: the sender could take the
// answer for that of a call which it has in flight under the same id.
func (h *Handler) strayResponse(in *Inbound) Reply {
	anonymous := *in
	anonymous.Message = &jsonrpc.Message{Kind: in.Message.Kind}
	fault := errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
		Keyword: "type", Message: "unexpected response: no request is waiting for it",
	}))
	if in.Message.Fault != nil {
		fault = FaultError(in.Message.Fault)
	}
	reply := h.refuse(&anonymous, fault)
	reply.data = nil // the run record shows the id
	return reply
}

// request finds the method in the era's table and reads its params; run runs the
// request and writes the reply. What is refused has its reply at once.
func (h *Handler) request(ctx context.Context, in *Inbound) (reply *Reply, run func() *Reply) {
	era := h.era(in.Dialect)
	if err := era.admit(in); err != nil {
		return ready(h.refuse(in, err))
	}
	method, ok := era.methods[in.Message.Method]
	if !ok {
		return ready(h.refuse(in, era.unknownMethod(in.Message.Method)))
	}
	call := &exchange{in: in, era: era, method: method, handler: h, req: &bridge.Request{
		Op: method.op, Origin: in.Origin, ID: in.Message.ID,
		Caller: in.Caller, Peer: in.Peer, Transport: in.Transport, Route: in.Route, Era: in.era(), Paced: in.Paced,
		Method: in.Message.Method, Revision: in.statedRevision(), Span: in.span,
		PageSize: math.MaxInt, Pointer: pointer,
		Protocol: in.protocol(),
	}}
	call.req.Envelope = call
	call.req.Header = WithTraceContext(in.Header, in.meta())
	if err := era.matchHeaders(in, method.op); err != nil {
		return ready(h.refuseCall(call, err))
	}
	if err := method.read(call); err != nil {
		return ready(h.refuseCall(call, err))
	}
	if method.op == bridge.OpOpen {
		call.req.Revision = call.req.Context.GetProtocolVersion() // its message has no era yet
	}
	if in.opensEarly() {
		if err := h.openSession(call); err != nil {
			return ready(h.refuseCall(call, err))
		}
	}
	unfollow, err := h.follow(call)
	if err != nil {
		return ready(h.refuseCall(call, err))
	}
	h.connect(call)
	call.flight = h.runner.Begin(ctx, call.req)
	in.flight = call.flight
	run = func() *Reply {
		defer unfollow()
		// Nothing of the reply is there while the request runs: it may run for days.
		call.resp = call.flight.Run()
		h.replyTo(call)
		return &call.reply
	}
	if call.flight.IsRefused() {
		return run(), nil // it was not registered, and only says why
	}
	return nil, run
}

// replyTo writes the reply to a request that has run.
func (h *Handler) replyTo(call *exchange) {
	resp := call.resp
	call.in.resp = resp
	call.reply = h.answer(call.era, call.method, call, resp)
	call.reply.Header = mergedHeader(resp.Header, resp.Trailer)
}

// mergedHeader is the backend's metadata for a transport that has no trailers.
func mergedHeader(header, trailer http.Header) http.Header {
	switch {
	case len(trailer) == 0:
		return header
	case len(header) == 0:
		return trailer
	}
	out := header.Clone()
	for name, values := range trailer {
		out[name] = append(out[name], values...)
	}
	return out
}

// answer writes a response in the era's words.
func (h *Handler) answer(era *era, method method, call *exchange, resp *bridge.Response) (reply Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply = era.failed(h, call, h.runner.Panicked(p, bridge.RequestID(call.req.ID)))
		}
	}()
	if resp.Silent {
		return Reply{Status: statusClientClosed, err: resp.Err, tool: resp.Tool}
	}
	call.resp = resp
	if resp.Err != nil {
		return era.failed(h, call, resp.Err)
	}
	if !call.in.opensEarly() {
		if err := h.openSession(call); err != nil {
			return era.failed(h, call, err)
		}
	}
	if err := NoteRepairs(resp); err != nil {
		return era.failed(h, call, err)
	}
	result, err := method.write(h, call)
	if err != nil {
		return era.failed(h, call, err)
	}
	reply = Reply{Status: http.StatusOK, tool: resp.Tool}
	call.success(&reply, result)
	if call.whole != nil {
		reply.lender, reply.shared, reply.quoted = h.buffers, call.shared, call.quoted
	}
	resp.Release(h.buffers) // the reply has its bytes now
	if call.req.Op == bridge.OpListen && call.in.Header == nil {
		reply.Then = notification(methodCancelled, append(append([]byte(`{"requestId":`), call.in.Message.ID.Raw()...), '}'))
	}
	return reply
}

// envelopeBytes is the size of an envelope around an id and a result, and of a
// line end behind it.
const envelopeBytes = 40

// statusClientClosed is what a cancelled request is logged with; nothing is
// sent (the number is the one of the canonical table for CANCELLED).
const statusClientClosed = 499

// refuse answers a message that never became a request.
func (h *Handler) refuse(in *Inbound, err *errmap.Error) Reply {
	return h.refuseCall(&exchange{in: in, req: &bridge.Request{}, messageForm: isMessageForm(in)}, err)
}

// refuseCall answers a request whose params or headers do not fit.
func (h *Handler) refuseCall(call *exchange, err *errmap.Error) Reply {
	in, err := call.in, err.Redacted()
	h.refusals.Refused(&bridge.Refusal{
		Transport: in.Transport, Route: in.Route, Caller: in.Caller, ID: in.Message.ID, Header: in.Header, Span: in.span, Err: err,
	})
	h.auditRefused(call, err)
	h.countRefused(call, err)
	return h.era(in.Dialect).failed(h, call, err)
}

// Denied is what the audit trail says of a stream that an edge denied to a caller, before
// there was a message to handle.
func (in *Inbound) Denied() *bridge.Request {
	return &bridge.Request{
		Header: in.Header, Caller: in.Caller, Peer: in.Peer, Transport: in.Transport, Route: in.Route, Era: in.era(),
	}
}

// Known says that the caller of the message is known, and gives it the context of the caller:
// what is refused from now on is in the audit trail. A message that is handled needs no Known.
func (in *Inbound) Known(ctx context.Context) { in.ctx = ctx }

// Refuse renders a canonical error as a reply in the message's dialect. Edges use
// it for their own errors, before there is a message to handle.
func (h *Handler) Refuse(in *Inbound, err *errmap.Error) Reply {
	if in.Message == nil {
		in.Message = &jsonrpc.Message{}
		if in.HTTP != nil {
			return h.refuseHTTP(in, err)
		}
	}
	in.span = h.startSpan(in)
	reply := h.refuse(in, err)
	in.endSpan(&reply)
	return reply
}

// refuseHTTP refuses an HTTP request without a message. The span is that of the request.
func (h *Handler) refuseHTTP(in *Inbound, err *errmap.Error) Reply {
	in.span = in.HTTP.Span()
	reply := h.refuse(in, err)
	in.HTTP.Refused(telemetry.OutcomeOf(err.Redacted(), in.protocol()))
	return reply
}

// notification takes a message that wants no answer, and never waits. A
// cancellation goes by its requestId to whichever call of the same origin is in
// flight, whatever dialect that call came in. Every other canonical notification
// is an event; those of MCP mean something to MCP alone.
func (h *Handler) notification(ctx context.Context, in *Inbound) Reply {
	switch {
	case in.Message.Method == methodCancelled:
		h.cancelled(in)
	case in.Message.Method == methodItems && in.Follows:
		h.took(in)
	case in.Dialect == Canonical && h.opts.Notify != nil:
		h.notify(ctx, in)
	}
	return Reply{Status: http.StatusAccepted}
}

// methodCancelled is a notification that the sidecar acts on, beside methodItems.
const methodCancelled = "notifications/cancelled"

// notify hands an event over. Whatever goes wrong there, a notification has no
// answer.
func (h *Handler) notify(ctx context.Context, in *Inbound) {
	defer func() {
		if p := recover(); p != nil {
			_ = h.runner.Panicked(p, append(bridge.TraceFields(in.span, in.Header), zap.String(logkey.Method, in.Message.Method))...)
		}
	}()
	h.opts.Notify(ctx, in.Message.Method, in.Message.Params, in.Origin)
}

// cancelled ignores what it cannot match, because a cancellation may cross the
// answer on its way (MCP, cancellation).
func (h *Handler) cancelled(in *Inbound) {
	id, ok := CancelledID(in.Message)
	if !ok {
		return
	}
	raw, _ := in.Message.Param("reason")
	reason, _ := jsontext.Text(raw)
	if h.flights.Cancel(in.Origin, id, reason) || in.Session == nil {
		return
	}
	// It may run at another replica, or have ended.
	if err := in.Session.Cancel(in.ctx, id.Raw(), reason); err != nil {
		h.noted.Warn("cancellation of a legacy client not passed on to other replicas", zap.String(logkey.Method, in.Message.Method), logkey.Error(err))
	}
}

// CancelledID returns the id of the request that a message cancels; false if the
// message is not a cancellation, or has no id.
func CancelledID(msg *jsonrpc.Message) (jsonrpc.ID, bool) {
	if msg.Kind != jsonrpc.KindNotification || msg.Fault != nil || msg.Method != methodCancelled {
		return jsonrpc.ID{}, false
	}
	raw, ok := msg.Param("requestId")
	if !ok {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.ParseID(raw)
	return id, err == nil
}

// FaultError returns the canonical error for a parser fault.
func FaultError(f *jsonrpc.Fault) *errmap.Error {
	code := errmap.InvalidEnvelope
	switch f.Code {
	case jsonrpc.FaultParse:
		code = errmap.ParseError
	case jsonrpc.FaultTooLarge:
		code = errmap.PayloadTooLarge
	}
	return errmap.New(code, errmap.Over(LimitOf(f)), errmap.WithViolations(errmap.Violation{Path: f.Path, Keyword: "envelope", Message: f.Reason}))
}

// LimitOf returns the limit that a fault is about; empty if there is none.
func LimitOf(f *jsonrpc.Fault) errmap.Limit {
	switch f.Over {
	case jsonrpc.OverBytes:
		return errmap.LimitMessageBytes
	case jsonrpc.OverDepth:
		return errmap.LimitJSONDepth
	case jsonrpc.OverIDBytes:
		return errmap.LimitIDBytes
	case jsonrpc.Unbounded:
	}
	return ""
}
