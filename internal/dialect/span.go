// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"cmp"
	"context"
	"strings"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Names of spans whose messages name no method that exists. A text of the caller must not become one.
const (
	spanInvalid = "invalid" // no valid message
	spanOther   = "_OTHER"  // a method that the dialect does not have, or an event
)

// Request returns the HTTP request of a context for [Inbound.HTTP]; nil without tracing.
func (h *Handler) Request(ctx context.Context) *telemetry.HTTPRequest {
	if !h.tracer.IsOn() {
		return nil
	}
	return telemetry.HTTPRequestOf(ctx)
}

// startSpan starts the span of a message; nil without tracing.
func (h *Handler) startSpan(in *Inbound) *telemetry.Span {
	if !h.tracer.IsOn() {
		return nil
	}
	method := h.spanMethod(in)
	a := telemetry.Arrival{Start: in.Start, Method: method, Header: in.Header}
	if in.meta() != nil {
		a.Message = (*metaContext)(&in.found)
	}
	if in.Stream != nil {
		a.Links = []telemetry.Context{in.Stream.Context()}
	}
	var span *telemetry.Span
	if method == spanInvalid {
		span = h.start(in.HTTP, a)
	} else {
		span = h.start(in.HTTP, a, telemetry.Text(telemetry.MethodName, method))
	}
	if span.IsRecording() {
		span.Set(in.appendSpanAttributes(make([]telemetry.Attribute, 0, 8))...)
	}
	return span
}

// start starts a span for what came in an HTTP request, or, where that is nil, in none.
func (h *Handler) start(r *telemetry.HTTPRequest, a telemetry.Arrival, attributes ...telemetry.Attribute) *telemetry.Span {
	if r != nil {
		return r.Start(a, attributes...)
	}
	return h.tracer.Start(a, attributes...)
}

// spanMethod is what the span of a message is called.
func (h *Handler) spanMethod(in *Inbound) string {
	msg := in.Message
	switch {
	case msg.Fault != nil:
		return spanInvalid
	case msg.Kind == jsonrpc.KindRequest:
		if _, ok := h.era(in.Dialect).methods[msg.Method]; ok {
			return msg.Method
		}
		return spanOther
	case msg.Kind == jsonrpc.KindNotification:
		return notificationMethod(msg.Method)
	}
	return spanInvalid
}

// notificationMethod is the method of a notification that clients of MCP send. Others are events of callers, who choose their
// methods.
func notificationMethod(method string) string {
	switch method {
	case methodCancelled, "notifications/initialized", "notifications/progress", "notifications/roots/list_changed",
		"notifications/tasks/status", "notifications/elicitation/complete":
		return method
	}
	return spanOther
}

// appendSpanAttributes appends the facts of a message that its span has besides its method.
func (in *Inbound) appendSpanAttributes(out []telemetry.Attribute) []telemetry.Attribute {
	out = append(out, telemetry.Text(telemetry.EdgeName, telemetry.EdgeOf(in.Transport, in.Route, false).String()))
	if id := in.Message.ID; !id.IsZero() {
		out = append(out, telemetry.Text(telemetry.RequestID, idText(id)))
	}
	out = in.appendEra(out)
	switch {
	case in.HTTP != nil: // which knows better
	case in.Header == nil:
		out = append(out, telemetry.Text(telemetry.Transport, "pipe"))
	default:
		out = telemetry.AppendPeer(out, in.Peer)
	}
	return out
}

// appendEra appends which revision of MCP a message is of, and of which session.
func (in *Inbound) appendEra(out []telemetry.Attribute) []telemetry.Attribute {
	if in.Dialect == Canonical {
		return out
	}
	if version := in.era(); version != unknownRevision {
		out = append(out, telemetry.Text(telemetry.ProtocolVersion, version))
	}
	if in.Session != nil && in.Header != nil {
		out = append(out, telemetry.Text(telemetry.SessionID, in.Session.ID()))
	}
	return out
}

// TraceContext returns the ids of the message's span; invalid without tracing.
func (in *Inbound) TraceContext() telemetry.Context { return in.span.Context() }

// Describe adds the session to the span of a request without a message, as GET and DELETE of legacy sessions are.
func (in *Inbound) Describe() {
	if span := in.HTTP.Span(); span.IsRecording() {
		span.Set(in.appendEra(nil)...)
	}
}

// StreamOpened notes that the stream of such a request is open. by is the span of the call that began the stream, not valid if none did.
func (in *Inbound) StreamOpened(by telemetry.Context) {
	span := in.HTTP.Span()
	span.Link(by)
	span.Opened()
}

// traceSession adds the session that a message has opened to its span.
func (in *Inbound) traceSession(opened *session.Session) {
	if !in.span.IsRecording() {
		return
	}
	in.span.Set(telemetry.Text(telemetry.ProtocolVersion, opened.Context().GetProtocolVersion()))
	if in.Header != nil {
		in.span.Set(telemetry.Text(telemetry.SessionID, opened.ID()))
	}
}

// opening is a sink of changes that notes with the first one, which acknowledges the subscription, that the stream is open.
func opening(span *telemetry.Span, changes func(*outriggerv1.Notification) error) func(*outriggerv1.Notification) error {
	if !span.IsRecording() {
		return changes
	}
	isOpen := false
	return func(n *outriggerv1.Notification) error {
		if !isOpen {
			isOpen = true
			span.Opened()
		}
		return changes(n)
	}
}

// idText is an id without the quotes of JSON.
func idText(id jsonrpc.ID) string {
	if text, ok := id.Text(); ok {
		return text
	}
	return id.String()
}

// outcome is the response that a reply shows, for the span.
func (in *Inbound) outcome(reply *Reply) *bridge.Response {
	switch {
	case reply.err != nil:
		return &bridge.Response{Err: reply.err}
	case in.resp != nil:
		return in.resp
	}
	return &bridge.Response{}
}

// endSpan ends the span of a message with its reply.
func (in *Inbound) endSpan(reply *Reply) {
	if in.span != nil {
		bridge.EndSpan(in.span, in.outcome(reply), in.protocol(), in.aboutSpan())
	}
}

// aboutSpan says what the message asks for, as far as its outcome depends on it.
func (in *Inbound) aboutSpan() errmap.About {
	msg := in.Message
	return errmap.About{ToolCall: msg.Kind == jsonrpc.KindRequest && msg.Fault == nil && msg.Method == methodToolsCall}
}

// startCall starts the span of a request of an edge that does not speak JSON-RPC, and reports whether the request has one that
// it must end. A request that is a part of a stream has that one's span already.
func (h *Handler) startCall(ctx context.Context, req *bridge.Request) bool {
	if req.Method == "" {
		req.Method = strings.TrimPrefix(req.Route, "/")
	}
	if req.Span != nil || !h.tracer.IsOn() {
		return false
	}
	req.Span = h.StartRPC(ctx, req.Method, req)
	return true
}

// StartRPC starts the span of an RPC by its method, "package.Service/Method"; nil without tracing. Of req it needs what describes
// the connection, and where trace context is.
func (h *Handler) StartRPC(ctx context.Context, method string, req *bridge.Request) *telemetry.Span {
	if !h.tracer.IsOn() {
		return nil
	}
	a := telemetry.Arrival{Method: method, Header: req.Header} // with what _meta adds: WithOwnContext
	in := telemetry.HTTPRequestOf(ctx)
	span := h.start(in, a, telemetry.Text(telemetry.MethodName, method))
	if span.IsRecording() {
		span.Set(telemetry.Text(telemetry.RPCMethod, method), telemetry.Text(telemetry.RPCSystemName, telemetry.RPCSystem(req.Transport)),
			telemetry.Text(telemetry.EdgeName, telemetry.EdgeOf(req.Transport, req.Route, req.Procedure != "").String()))
		if in == nil {
			span.Set(telemetry.AppendPeer(nil, req.Peer)...)
		}
	}
	return span
}

// countRefused counts a request that was refused before it ran, by its method. What is no valid
// request has none.
func (h *Handler) countRefused(call *exchange, err *errmap.Error) {
	in := call.in
	if call.req.Method != "" {
		h.refusals.CountRefused(call.req, err)
		return
	}
	if in.Message.Fault != nil || in.Message.Kind != jsonrpc.KindRequest {
		return
	}
	h.refusals.CountRefused(&bridge.Request{
		Op: h.era(in.Dialect).op(in.Message.Method), Method: h.spanMethod(in), Protocol: in.protocol(), Revision: in.statedRevision(),
		Transport: in.Transport, Route: in.Route, Span: in.span,
	}, err)
}

// auditRefused writes the line of a message that was refused before it ran, if it asks for an
// invocation or may have done so.
func (h *Handler) auditRefused(call *exchange, err *errmap.Error) {
	in := call.in
	if in.ctx == nil || in.Message.Kind != jsonrpc.KindRequest && in.Message.Kind != jsonrpc.KindInvalid {
		return
	}
	if call.req.Op != bridge.OpInvalid && call.req.Message != nil {
		h.refusals.AuditRefused(in.ctx, call.req, err)
		return
	}
	asked := in.Message.Asked
	isUnread := asked.IsUnknown || in.Message.Fault == nil && in.Message.Method == ""
	if in.Dialect == Modern && isUnread { // the headers say the same as the body would
		asked.Method, asked.Name = in.Header.Get(headerMethod), in.Header.Get(headerName)
	}
	req := &bridge.Request{
		Op: call.req.Op, Origin: in.Origin, ID: in.Message.ID, Caller: in.Caller, Peer: in.Peer, Transport: in.Transport, Route: in.Route,
		Era: in.era(), Span: in.span, Header: WithTraceContext(in.Header, in.meta()),
		Tool: cmp.Or(call.req.Tool, asked.Name, namedIn(in.Message)), Names: call.req.Names,
	}
	if req.Op == bridge.OpInvalid {
		req.Op = h.era(in.Dialect).op(cmp.Or(asked.Method, in.Message.Method))
	}
	if isUnread && req.Op == bridge.OpInvalid {
		h.refusals.AuditUnread(in.ctx, req, err)
		return
	}
	h.refusals.AuditRefused(in.ctx, req, err)
}

// namedIn is the tool, the prompt, the URI or the task that the params of a message name, ""
// for none.
func namedIn(m *jsonrpc.Message) string {
	for _, member := range [...]string{"name", "tool_name", "uri", "taskId"} {
		if text, err := textParam(m, member); err == nil {
			return text
		}
	}
	return ""
}

// requestFields tie a line to the request that it is about.
func requestFields(req *bridge.Request) []zap.Field {
	return append(bridge.TraceFields(req.Span, req.Header), bridge.RequestID(req.ID))
}
