// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// Inbound is one JSON-RPC message as an edge read it.
type Inbound struct {
	Dialect Dialect
	// Origin is the scope of the message's id.
	Origin  correlate.Origin
	Message *jsonrpc.Message
	// Header holds the HTTP headers. Nil where the transport has none (stdio),
	// and then no rule about headers applies.
	Header http.Header
	// Caller is who asks; see [Request].
	Caller string
	// Transport and Route say where the message came in, for logs.
	Transport, Route string
	// Session is the legacy session that the message names; nil where it names
	// none.
	Session *session.Session
	// Opened takes the session that the message opens, which its owner has to
	// release; nil where none can be kept.
	Opened func(*session.Session)
	// Paced is set where the edge holds requests back itself and the caller waits:
	// then a call waits for a place as long as it takes, and is not refused because
	// many calls wait.
	Paced bool
	// Yield is called when the request begins to wait for its client or for changes,
	// which may come behind requests that wait for this one. It may be called more
	// than once, and be nil.
	Yield func()
	// Quiet is told that nothing will be sent for a while; it may be nil.
	Quiet func()
	// Send takes notifications that belong to the request, each one JSON-RPC
	// message, compact and on one line, in order and before the reply; the bytes
	// are Send's own. Its error says that they are no longer read. Nil where
	// there is no way to send any.
	Send func(message []byte) error

	// found is what meta found when it has looked.
	found     []byte
	hasLooked bool
}

// meta is the _meta of the message's params, nil where there is none. It is looked
// for once: in a large message it stands behind a large value.
func (in *Inbound) meta() []byte {
	if !in.hasLooked {
		in.found, _ = in.Message.Param("_meta")
		in.hasLooked = true
	}
	return in.found
}

// Reply is the answer to one JSON-RPC message.
type Reply struct {
	// Status is the HTTP status that goes with it.
	Status int
	// RetryAfter, where positive, is the value of a Retry-After header in
	// seconds.
	RetryAfter int
	// Challenge, where not empty, is the value of a WWW-Authenticate header.
	Challenge string
	// Then is a notification that follows the reply where the transport goes on
	// after it (stdio); nil for none.
	Then []byte
	// Header is the backend's metadata that the allow-list admits, for edges
	// whose transport carries metadata beside the body. It may be nil.
	Header http.Header

	// err is the error that the reply shows, and tool the tool that it is
	// about; both are for the run record.
	err  *errmap.Error
	tool *catalog.Tool
	// body is what the reply has of its own of its message; nil where nothing may be
	// sent (a notification, a cancelled request).
	body []byte
	// lender takes body back; nil where it came from nowhere.
	lender *bytepool.Pool
	// shared is what stands in the message and not in body, of a large listing.
	shared shared
}

// NewReply returns a reply with a message, which is its own, and the status 200.
func NewReply(message []byte) Reply { return Reply{Status: http.StatusOK, body: message} }

// Release gives up the message, which must not be looked at any more. Code that writes
// replies and keeps nothing of them calls it, once; without it nothing is lost
// but a buffer.
func (r *Reply) Release() {
	if r.lender != nil {
		r.lender.Put(r.body)
	}
	r.body, r.lender, r.shared = nil, nil, shared{}
}

// HandleMessage answers one JSON-RPC message in its dialect. Faulty messages
// are answered too; a notification never runs a tool. The reply's message is owned
// by the caller. It is safe for concurrent use and returns when the request has
// ended.
func (b *Bridge) HandleMessage(ctx context.Context, in *Inbound) Reply {
	return *b.BeginMessage(ctx, in)()
}

// begin is TakeMessage without the run record.
func (b *Bridge) begin(ctx context.Context, in *Inbound) (reply *Reply, run func() *Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply, run = ready(b.refuse(in, b.Panicked(p, requestID(in.Message.ID))))
		}
	}()
	msg := in.Message
	switch {
	case msg.Kind == jsonrpc.KindSuccess || msg.Kind == jsonrpc.KindError:
		return ready(b.strayResponse(in))
	case msg.Fault != nil:
		return ready(b.refuse(in, FaultError(msg.Fault)))
	case msg.Kind == jsonrpc.KindRequest:
		return b.request(ctx, in)
	}
	return ready(b.notification(in))
}

// ready is a reply that needs no run.
func ready(r Reply) (reply *Reply, run func() *Reply) { return &r, nil }

// strayResponse refuses a response: nothing here waits for one. Its id is not
// echoed, because it is an id of our own requests: the sender could take the
// answer for that of a call which it has in flight under the same id.
func (b *Bridge) strayResponse(in *Inbound) Reply {
	anonymous := *in
	anonymous.Message = &jsonrpc.Message{Kind: in.Message.Kind}
	if in.Message.Fault != nil {
		return b.refuse(&anonymous, FaultError(in.Message.Fault))
	}
	return b.refuse(&anonymous, errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
		Keyword: "type", Message: "a response was sent, but nothing here waits for one",
	})))
}

// request finds the method in the era's table and reads its params; run runs the
// request and writes the reply. What is refused has its reply at once.
func (b *Bridge) request(ctx context.Context, in *Inbound) (reply *Reply, run func() *Reply) {
	era := b.era(in.Dialect)
	if err := era.admit(in); err != nil {
		return ready(b.refuse(in, err))
	}
	method, ok := era.methods[in.Message.Method]
	if !ok {
		return ready(b.refuse(in, era.unknownMethod(in.Message.Method)))
	}
	call := &exchange{in: in, req: &Request{
		Op: method.op, Origin: in.Origin, ID: in.Message.ID,
		Caller: in.Caller, Transport: in.Transport, Route: in.Route, enveloped: true,
		PageSize: b.opts.PageSize, paced: in.Paced,
	}}
	call.req.message = call
	call.req.mirrored = era.mirrors && in.Header != nil
	if b.opts.RepairArguments {
		call.repair = b.RepairArguments
	}
	if err := era.matchHeaders(in, method.op); err != nil {
		return ready(b.refuseCall(call, err))
	}
	if err := method.read(call); err != nil {
		return ready(b.refuseCall(call, err))
	}
	if in.opensEarly() {
		if err := b.openSession(call); err != nil {
			return ready(b.refuseCall(call, err))
		}
	}
	call.req.Header = WithTraceContext(in.Header, in.meta())
	flight := b.Begin(ctx, call.req)
	b.connect(call, flight)
	call.flight, call.era, call.method = flight, era, method
	run = func() *Reply {
		// Nothing of the reply is there while the request runs: it may run for days.
		call.resp = call.flight.Run()
		b.replyTo(call)
		return &call.reply
	}
	if flight.call == nil {
		return run(), nil // it was not registered, and only says why
	}
	return nil, run
}

// replyTo writes the reply to a request that has run.
func (b *Bridge) replyTo(call *exchange) {
	resp := call.resp
	call.reply = b.answer(call.era, call.method, call, resp)
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
func (b *Bridge) answer(era *era, method method, call *exchange, resp *Response) (reply Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply = era.failed(b, call, b.Panicked(p, requestID(call.req.ID)))
		}
	}()
	if resp.Silent {
		return Reply{Status: statusClientClosed, err: resp.Err, tool: resp.Tool}
	}
	call.resp = resp
	if resp.Err != nil {
		return era.failed(b, call, resp.Err)
	}
	if !call.in.opensEarly() {
		if err := b.openSession(call); err != nil {
			return era.failed(b, call, err)
		}
	}
	result, err := method.write(b, call)
	if err != nil {
		return era.failed(b, call, err)
	}
	reply = Reply{Status: http.StatusOK, tool: resp.Tool}
	call.success(&reply, result)
	if call.whole != nil {
		reply.lender = &b.buffers
	}
	resp.Result.release(&b.buffers) // the reply has its bytes now
	if call.req.Op == OpListen && call.in.Header == nil {
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
func (b *Bridge) refuse(in *Inbound, err *errmap.Error) Reply {
	return b.refuseCall(&exchange{in: in, req: &Request{}, messageForm: isMessageForm(in)}, err)
}

// refuseCall answers a request whose params or headers do not fit.
func (b *Bridge) refuseCall(call *exchange, err *errmap.Error) Reply {
	in := call.in
	edge := stats.EdgeOf(in.Transport, in.Route, false)
	b.opts.Stats.Operation(int(OpInvalid)).Count(edge, err.Code)
	b.opts.Stats.Over(err.Limit)
	if in.Transport == transportHTTP && isHTTPRefusal(err.Code) {
		b.opts.Stats.HTTPRefused(edge, err.Code)
	}
	// A request without valid credentials has left its line where it was refused.
	if err.Code != errmap.Unauthenticated && b.log.Core().Enabled(zap.InfoLevel) && b.opts.CallLog.admitsRefusal(time.Now()) {
		b.log.Info("message refused", zap.Stringer("edge", edge), zap.String("route", in.Route),
			requestID(in.Message.ID), zap.String("trace_id", record.TraceID(in.Header.Get(traceparent))),
			zap.String("caller", in.Caller), zap.String("code", string(err.Code)), zap.String("cause", errmap.Redact(err.Error())))
	}
	return b.era(in.Dialect).failed(b, call, err)
}

// Refuse answers a message with a canonical error in its dialect. Edges use it
// for what they find wrong themselves, before there is a message to handle.
func (b *Bridge) Refuse(in *Inbound, err *errmap.Error) Reply {
	if in.Message == nil {
		in.Message = &jsonrpc.Message{}
	}
	return b.refuse(in, err)
}

// notification takes a message that wants no answer, and never waits. A
// cancellation goes by its requestId to whichever call of the same origin is in
// flight, whatever dialect that call came in. Every other canonical notification
// is an event; those of MCP mean something to MCP alone.
func (b *Bridge) notification(in *Inbound) Reply {
	switch {
	case in.Message.Method == methodCancelled:
		b.cancelled(in)
	case in.Dialect == DialectCanonical && b.opts.Notify != nil:
		b.notify(in)
	}
	return Reply{Status: http.StatusAccepted}
}

// methodCancelled is the one notification that the sidecar acts on.
const methodCancelled = "notifications/cancelled"

// notify hands an event over. Whatever goes wrong there, a notification has no
// answer.
func (b *Bridge) notify(in *Inbound) {
	defer func() {
		if p := recover(); p != nil {
			_ = b.Panicked(p, zap.String("method", in.Message.Method))
		}
	}()
	b.opts.Notify(in.Message.Method, in.Message.Params, in.Origin)
}

// cancelled ignores what it cannot match, because a cancellation may cross the
// answer on its way (MCP, cancellation).
func (b *Bridge) cancelled(in *Inbound) {
	id, ok := CancelledID(in.Message)
	if !ok {
		return
	}
	raw, _ := in.Message.Param("reason")
	reason, _ := jsonrpc.Text(raw)
	b.flights.Cancel(in.Origin, id, reason)
}

// CancelledID is the id of the request that a message cancels; false where the
// message is no cancellation, or names no request.
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

// FaultError is the canonical form of what the parser found.
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

// LimitOf is the limit that a fault is about, in the words of the configuration;
// empty where there is none.
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

// transportHTTP is the transport of the JSON-RPC edges over HTTP.
const transportHTTP = "http"

// isHTTPRefusal holds for what is wrong with a request as one of HTTP.
func isHTTPRefusal(code errmap.Code) bool {
	switch code {
	case errmap.Unauthenticated, errmap.MethodNotAllowed, errmap.NotAcceptable, errmap.UnsupportedMediaType, errmap.PayloadTooLarge:
		return true
	}
	return false
}
