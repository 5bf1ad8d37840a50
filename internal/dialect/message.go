// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"errors"
	"math"
	"net/http"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// HandleMessage handles one JSON-RPC message in its dialect. Invalid messages get
// a reply too; a notification never runs a tool. The caller owns the reply's
// message. It is safe for concurrent use and returns when the request has ended.
func (h *Handler) HandleMessage(ctx context.Context, in *Inbound) Reply {
	return *h.BeginMessage(ctx, in)()
}

// beginUnrecorded is TakeMessage without the run record.
func (h *Handler) beginUnrecorded(ctx context.Context, in *Inbound) (reply *Reply, run func() *Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply, run = ready(h.refuse(in, h.runner.Panicked(p, bridge.RequestID(in.Message.ID))))
		}
	}()
	in.ctx = ctx
	msg := in.Message
	switch {
	case msg.Kind == jsonrpc.KindSuccess || msg.Kind == jsonrpc.KindError || msg.Responds:
		return ready(h.strayResponse(in))
	case msg.Fault != nil:
		refused := h.refuse(in, FaultError(msg.Fault))
		refused.IsUnasked = msg.Kind == jsonrpc.KindNotification && msg.Fault.Path != "/method" // else it is no notification
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
// answer for that of a call which it has in flight under the same id. Where the
// transport can do without a reply none is sent: some clients close the connection
// for an error without an id.
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
	reply.IsUnasked = true
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
		return ready(h.refuse(in, errmap.Because(errmap.MethodNotFound, errmap.Quote(in.Message.Method))))
	}
	call := &exchange{in: in, era: era, method: method, handler: h, req: &bridge.Request{
		Op: method.op, Origin: in.Origin, ID: in.Message.ID,
		Caller: in.Caller, Peer: in.Peer, Transport: in.Transport, Route: in.Route, Era: in.era(), Paced: in.Paced,
		Method: in.Message.Method, Revision: in.statedRevision(), Span: in.span,
		PageSize: math.MaxInt, Pointer: pointer,
		Protocol: in.protocol(), Header: withTraceContext(in.Header, in.meta()),
	}}
	call.req.Envelope = call
	if h.opts.Denials {
		call.req.Header = withAuthorizationContext(call.req.Header, in.meta())
	}
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
	flight := h.runner.Begin(ctx, call.req)
	in.flight = flight
	run = func() *Reply {
		defer unfollow()
		// Nothing of the reply is there while the request runs: it may run for days.
		call.resp = flight.Run()
		h.replyTo(call)
		return &call.reply
	}
	if flight.IsRefused() {
		return run(), nil // it was not registered, and only says why
	}
	return nil, run
}

// replyTo writes the reply to a request that has run.
func (h *Handler) replyTo(call *exchange) {
	resp := call.resp
	call.in.resp = resp
	call.reply = h.answer(call.era, call.method, call, resp)
	if call.draft != nil && call.draft.outputs != nil {
		call.reshape()
	}
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
func (h *Handler) answer(era *era, method *method, call *exchange, resp *bridge.Response) (reply Reply) {
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
	reply = call.reply
	reply.Status, reply.tool = http.StatusOK, resp.Tool
	if reply.body == nil {
		reply.body = call.enveloped(result)
	}
	resp.Release(h.buffers) // the reply has its bytes now
	if call.req.Op == bridge.OpListen && call.in.Header == nil {
		reply.Then = notification(methodCancelled, append(append([]byte(`{"requestId":`), call.in.Message.ID.Raw()...), '}'))
	}
	return reply
}

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

// UnknownSession returns the reply to a message whose session id is unknown for
// its caller: the client then opens a new session. Without any id, the error
// says so.
func (h *Handler) UnknownSession(in *Inbound, hasID bool) Reply {
	err := errmap.New(errmap.SessionNotFound)
	if !hasID {
		err = errmap.New(errmap.SessionNotFound, errmap.NoSession(),
			errmap.Message("Session not found: no Mcp-Session-Id was sent; send initialize first"))
	}
	return h.Refuse(in, err)
}

// SessionRefused returns the reply to a message whose session cannot be used, which an edge
// found out.
func (h *Handler) SessionRefused(in *Inbound, err error) Reply {
	switch {
	case errors.Is(err, session.ErrUnknown):
		return h.UnknownSession(in, true)
	case errors.Is(err, session.ErrClosed): // another replica has it, or it has ended: who tries again learns it
		return h.Refuse(in, unavailable("the sidecar is shutting down; try another replica"))
	}
	return h.Refuse(in, sessionError(err))
}
