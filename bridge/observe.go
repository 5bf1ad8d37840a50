// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/trail"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// counter counts requests that have ended.
type counter struct{ stats *telemetry.Stats }

// found begins to count a call of a tool, once, however many rounds it takes.
func (n *counter) found(c *toolCall) {
	if m := c.req.meter; m != nil && m.tool == nil {
		m.tool = n.stats.Tool(c.tool.Name)
		m.tool.Begin()
		m.document.Found(c.tool)
		c.req.traceTool(c.tool)
	}
}

// finished is a request that has ended, with all that is known of its end.
type finished struct {
	req  *Request
	resp *Response
	// meter is what was measured of it.
	meter meter
	// who is the caller, if there is an audit trail.
	who  *identity.Identity
	edge telemetry.Edge
	// code is what it is counted under, empty for success.
	code errmap.Code
	// at is when it ended, and took how long that took.
	at   time.Time
	took time.Duration
}

// observer notes requests that have ended: it counts, audits, records, traces or logs them. It gets each request once.
type observer interface{ ended(f *finished) }

// ended implements [observer].
func (n *counter) ended(f *finished) {
	if f.resp.Err != nil && !isOfAPart(f.resp.Err) {
		n.stats.Over(f.resp.Err.Limit)
	}
	series := f.meter.tool
	if f.req.Op == OpCall {
		if series == nil {
			series = n.stats.Tool("") // no such tool, or none that could be looked up
			series.Begin()
		}
		series.End(telemetry.End{Code: f.code, Edge: f.edge, Took: f.took, Upstream: f.meter.upstream, Trace: traceOf(f.req.Span)})
	} else {
		n.stats.Operation(int(f.req.Op)).Count(f.edge, f.code)
	}
	n.countMCP(f.req, f.resp, series, f.took)
}

// lines writes the one line that a request leaves in the log.
type lines struct {
	log     *zap.Logger
	callLog *telemetry.CallLog
}

// ended implements [observer].
func (l *lines) ended(f *finished) {
	if entry := l.log.Check(l.level(f)); entry != nil {
		entry.Write(append(f.fields(), failure(f.resp.Err)...)...)
	}
}

// Refusal describes a message that an edge refused before it became a request, for
// [Bridge.Refused].
type Refusal struct {
	// Transport, Route and Caller are those of [Request]. ID and Header are set as
	// far as they are known.
	Transport, Route, Caller string
	ID                       jsonrpc.ID
	Header                   http.Header
	// Span is the span of the message; nil without tracing. Its edge ends it, see [EndSpan].
	Span *telemetry.Span
	Err  *errmap.Error
}

// refused counts a message that an edge refused before it became a request.
func (n *counter) refused(r *Refusal) {
	edge := telemetry.EdgeOf(r.Transport, r.Route, false)
	n.stats.Operation(int(OpInvalid)).Count(edge, r.Err.Code)
	n.stats.Over(r.Err.Limit)
	if r.Transport == transportHTTP && isHTTPRefusal(r.Err.Code) {
		n.stats.HTTPRefused(edge, r.Err.Code)
	}
}

// refused logs such a message. A request without valid credentials has left its line where it was refused.
func (l *lines) refused(r *Refusal) {
	if r.Err.Code == errmap.Unauthenticated || !l.log.Core().Enabled(zap.InfoLevel) || !l.callLog.AdmitsRefusal(time.Now()) {
		return
	}
	edge := telemetry.EdgeOf(r.Transport, r.Route, false)
	fields := appendOrigin(make([]zap.Field, 0, 10), edge, r.Route)
	if edge.IsJSONRPC() {
		fields = append(fields, RequestID(r.ID))
	}
	l.log.Info("message refused", append(appendTrace(fields, r.Span, r.Header),
		zap.String(logkey.Caller, r.Caller), zap.String(logkey.ErrorCode, string(r.Err.Code)), logkey.Error(errors.New(errmap.Redact(r.Err.Error()))))...)
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

// outcomeCode is the canonical code that a request is counted under, empty for
// success. A native tool that answers with a failure has failed, although its
// answer is a result.
func outcomeCode(resp *Response) errmap.Code {
	if resp.Err != nil {
		return resp.Err.Code
	}
	if result := resp.Outcome.GetResult(); result.GetStatus() == content.StatusFailure {
		return errmap.ToolExecutionFailed
	}
	return ""
}

// level is where the line of a request goes, and what it is called. Faults of the
// sidecar are always logged; what is no tool call shows only where it fails.
func (l *lines) level(f *finished) (level zapcore.Level, message string) {
	message = "request"
	if f.req.Op == OpCall {
		message = "call"
	}
	switch {
	case f.code == errmap.InternalError:
		return zap.ErrorLevel, message
	case f.req.Op != OpCall && f.code == "":
		return zap.DebugLevel, message
	case l.log.Core().Enabled(zap.InfoLevel) && !l.callLog.Admits(f.at, f.code != ""):
		return zap.DebugLevel, message
	}
	return zap.InfoLevel, message
}

// fields are what the line of a request says. A key that does not apply is left out, as in spans.
func (f *finished) fields() []zap.Field {
	req, resp, edge := f.req, f.resp, f.edge
	fields := appendOrigin(make([]zap.Field, 0, 18), edge, req.Route)
	fields = append(fields, zap.String(logkey.Operation, req.Op.String()))
	if edge.IsJSONRPC() {
		fields = appendText(fields, logkey.Method, req.Method)
		fields = append(fields, RequestID(req.ID))
	}
	fields = append(appendTrace(fields, req.Span, req.Header), zap.String(logkey.Caller, req.Caller))
	fields = appendText(fields, logkey.Operator, req.console.Name())
	if resp.Tool != nil {
		fields = append(fields, zap.String(logkey.Tool, req.toolName(resp.Tool)), zap.String(logkey.CanonicalTool, resp.Tool.Name))
	}
	on := req.Protocol
	if edge.IsRPC() {
		on = errmap.ConnectRPC
	}
	outcome := resp.SpanOutcome(on, errmap.About{ToolCall: req.Op == OpCall})
	for _, a := range outcome.Attributes {
		fields = append(fields, zap.String(string(a.Key), a.Value.AsString()))
	}
	fields = appendText(fields, logkey.ErrorType, outcome.ErrorType)
	fields = append(fields, zap.Duration("duration_ms", f.took))
	if f.meter.upstream > 0 {
		fields = append(fields, zap.Duration("upstream_duration_ms", f.meter.upstream))
	}
	return fields
}

// appendOrigin appends where a message arrived. Its route is the method on the edges for RPCs, and none on stdio.
func appendOrigin(fields []zap.Field, edge telemetry.Edge, route string) []zap.Field {
	fields = append(fields, zap.String(logkey.Edge, string(edge)))
	switch {
	case edge.IsRPC():
		return append(fields, zap.String(logkey.RPCMethod, strings.TrimPrefix(route, "/")))
	case edge.IsJSONRPC() && edge != telemetry.EdgeStdio:
		return append(fields, zap.String(logkey.HTTPRoute, route))
	}
	return fields
}

// appendText appends a field that has a value.
func appendText(fields []zap.Field, key, value string) []zap.Field {
	if value == "" {
		return fields
	}
	return append(fields, zap.String(key, value))
}

// RequestID returns the log field for the id of a request. An id that is a string is
// logged without its JSON quotes.
func RequestID(id jsonrpc.ID) zap.Field {
	if text, ok := id.Text(); ok {
		return zap.String(logkey.RequestID, text)
	}
	return zap.String(logkey.RequestID, id.String())
}

// failure is what the line of a failed request says besides the outcome of its span, with
// the cause: enough to find out where to look. What callers and tools wrote stays out of the log, except for
// the name of a tool that does not exist.
func failure(err *errmap.Error) []zap.Field {
	if err == nil {
		return nil
	}
	switch err.Code {
	case errmap.ToolNotFound:
		return []zap.Field{zap.String(logkey.RequestedTool, errmap.Redact(err.Tool))}
	case errmap.PermissionDenied:
		if err.Rule != "" {
			return []zap.Field{zap.String("policy_rule", err.Rule)}
		}
	case errmap.ToolExecutionFailed:
		return []zap.Field{zap.String(logkey.BackendStatus, err.BackendCode)}
	}
	if len(err.Violations) > 0 {
		return []zap.Field{zap.Int("violations", len(err.Violations))}
	}
	return nil
}

// causeOf is the cause of an error for the log, the span and the audit trail, redacted;
// "" if it has none. Callers never see it. A status of the backend is no cause, because the
// tool wrote it, and a broken rule is named without the value.
func causeOf(err *errmap.Error) string {
	if err == nil {
		return ""
	}
	cause := err.Unwrap()
	var peer *backend.Error
	var broken *transcode.InputError
	switch {
	case errors.As(cause, &peer) && peer.Kind == backend.KindStatus:
		return ""
	case errors.As(cause, &broken) && len(broken.Violations) > 0:
		first := broken.Violations[0]
		return errmap.Redact(fmt.Sprintf("%s: at %q: %s", err.Code, first.Path, first.Keyword))
	}
	switch err.Code {
	case errmap.Unavailable, errmap.TransportError, errmap.Timeout, errmap.InternalError:
		return errmap.Redact(err.Error()) // the message is the sidecar's own
	}
	if cause == nil {
		return ""
	}
	return errmap.Redact(string(err.Code) + ": " + cause.Error())
}

// countRefused counts a request that its edge refused before it began, by its method. Nothing has measured how long that took:
// the duration is zero.
func (n *counter) countRefused(req *Request, err *errmap.Error) {
	var tool *telemetry.Series
	if req.Op == OpCall {
		tool = n.stats.Tool("") // it was not looked up
	}
	n.countMCP(req, &Response{Err: err}, tool, 0)
}

// countMCP counts a finished request by OpenTelemetry's conventions for MCP. They do not speak
// of requests by other protocols, or of what no caller asked for.
func (n *counter) countMCP(req *Request, resp *Response, tool *telemetry.Series, took time.Duration) {
	edge := telemetry.EdgeOf(req.Transport, req.Route, req.Procedure != "")
	if req.Method == "" || !edge.IsJSONRPC() {
		return
	}
	status := resp.status(req.Protocol, errmap.About{ToolCall: req.Op == OpCall})
	n.stats.EndMCP(telemetry.MCPRequest{
		Tool: tool, Method: req.Method, Version: req.Revision, Transport: edge.Transport(),
		ErrorType: status.Type, Status: status.Code, Took: took, Trace: traceOf(req.Span),
	})
}

// traceOf names a span for exemplars. Only sampled spans can be looked up.
func traceOf(span *telemetry.Span) telemetry.Trace {
	of := span.Context()
	if !of.IsSampled() {
		return telemetry.Trace{}
	}
	return telemetry.Trace{TraceID: of.TraceID(), SpanID: of.SpanID()}
}

// EndSpan ends the span of a message with what has become of it. on and about say how its edge showed the response. For a
// message that never became a request, resp has only the error.
func EndSpan(span *telemetry.Span, resp *Response, on errmap.Protocol, about errmap.About) {
	if !span.IsRecording() {
		span.End(telemetry.Outcome{})
		return
	}
	span.End(resp.SpanOutcome(on, about))
}

// SpanOutcome returns the outcome of a response for its span, by OpenTelemetry's conventions; see [errmap.Status]. A native
// tool that answers with a failure has failed, although its answer is a result.
func (r *Response) SpanOutcome(on errmap.Protocol, about errmap.About) telemetry.Outcome {
	code, failed := outcomeCode(r), r.Err
	if code == "" {
		if on != errmap.ConnectRPC {
			return telemetry.Outcome{}
		}
		return telemetry.Outcome{Attributes: []telemetry.Attribute{telemetry.Text(telemetry.StatusCode, errmap.StatusOK)}}
	}
	status := r.status(on, about)
	if failed == nil {
		failed = errmap.New(code)
		if on == errmap.ConnectRPC {
			status.Code = errmap.StatusOK // the RPC itself did not fail
		}
	}
	attributes := []telemetry.Attribute{telemetry.Text(telemetry.StatusCode, status.Code), telemetry.Text(telemetry.ErrorCode, string(code))}
	if cause := causeOf(r.Err); cause != "" {
		// Not as the description of the status: errors that are the caller's own have none.
		attributes = append(attributes, telemetry.Text(logkey.ExceptionMessage, cause))
	}
	return telemetry.Outcome{ErrorType: status.Type, Message: failed.Described(), Attributes: attributes}
}

// status is the status of a response in the vocabulary of its caller; the zero value for success.
func (r *Response) status(on errmap.Protocol, about errmap.About) errmap.Status {
	if r.Err != nil {
		return r.Err.Status(on, about)
	}
	code := outcomeCode(r)
	if code == "" {
		return errmap.Status{}
	}
	return errmap.Status{Code: errmap.New(code).Status(on, about).Code, Type: errmap.TypeToolError}
}

// TraceFields returns the log fields that tie a line to a trace: trace_id, and with tracing span_id. span may be nil; h are
// the headers of the message.
func TraceFields(span *telemetry.Span, h http.Header) []zap.Field {
	return appendTrace(make([]zap.Field, 0, 2), span, h)
}

func appendTrace(fields []zap.Field, span *telemetry.Span, h http.Header) []zap.Field {
	fields = append(fields, zap.String(logkey.TraceID, traceID(span, h)))
	if span != nil {
		fields = append(fields, zap.String(logkey.SpanID, span.SpanID()))
	}
	return fields
}

// spans adds what was sent and answered to the spans of calls. Edges end the spans.
type spans struct{ payloads *trail.Payloads }

// ended implements [observer]: it adds the arguments and the result of a call to its span, where it takes them. A question and a task are no
// results: what they seal is for the caller alone.
func (s *spans) ended(f *finished) {
	span := f.req.Span
	most, ok := span.Payloads()
	if !ok || f.meter.input == nil || f.req.Op != OpCall {
		return
	}
	arguments := s.payloads.Arguments(f.resp.Tool, f.meter.input, most)
	span.Payload(telemetry.ToolArguments, arguments.JSON, arguments.Size, arguments.Secret)
	if f.resp.isResult(f.code) {
		result := f.resp.payload(s.payloads, most)
		span.Payload(telemetry.ToolResult, result.JSON, result.Size, result.Secret)
	}
}

// newInput keeps arguments that are not too large to be recorded.
func newInput(req *Request, most int) *trail.Input {
	in := &trail.Input{IsProtobuf: req.Arguments.Encoding == EncodingProtobuf, Size: req.size()}
	switch {
	case in.Size > most:
	case req.Message != nil:
		in.Bytes = messageJSON(req.Message)
		in.Size = len(in.Bytes)
	default:
		in.Bytes = slices.Clone(req.Arguments.Bytes)
	}
	return in
}

// isResult reports whether a response is a result, and no error, question or task.
func (r *Response) isResult(code errmap.Code) bool {
	return code == "" && !r.Silent && r.inputRequired() == nil && r.Outcome.GetTask() == nil
}

// payload is the result of a response. Nothing is made of more than most bytes.
func (r *Response) payload(p *trail.Payloads, most int) trail.Payload {
	size := r.size()
	switch {
	case size > most, r.Err != nil:
		return trail.Payload{Size: size}
	case r.Outcome == nil && r.Message != nil:
		return p.Result(r.Tool, messageJSON(r.Message))
	case r.Outcome == nil && r.Result.Encoding == EncodingProtobuf:
		return p.Result(r.Tool, r.Tool.ResultJSON(r.Result.Bytes))
	}
	return p.Result(r.Tool, r.JSON())
}

// documents records the document {tool, input, output} of each call.
type documents struct {
	payloads *trail.Payloads
	secrets  func(tool *catalog.Tool, err *errmap.Error) []redact.Names
	trail    *trail.Documents
}

// ended implements [observer].
func (w *documents) ended(f *finished) { w.end(f.meter.document, f.resp, f.code) }

// end writes the document of a call that has ended; nil is none.
func (w *documents) end(d *trail.CallDocument, resp *Response, code errmap.Code) {
	if d == nil {
		return
	}
	d.Found(resp.Tool)
	var result trail.Payload
	isResult := resp.isResult(code)
	switch {
	case isResult:
		result = resp.payload(w.payloads, w.trail.MaxPayloadBytes())
	case resp.Err == nil && resp.Outcome.GetResult().GetError() != nil:
		// A native tool says itself how it failed: all of that is its result.
		isResult = true
		if result = (trail.Payload{Size: resp.size()}); result.Size <= w.trail.MaxPayloadBytes() {
			result = w.payloads.Result(resp.Tool, messageJSON(resp.Outcome))
		}
	}
	var failure []byte
	var secrets []redact.Names
	if resp.Err != nil && !resp.Silent {
		failure = resp.Err.AppendDetail(nil, resp.About(nil))
		if resp.Tool != nil {
			secrets = w.secrets(resp.Tool, resp.Err)
		}
	}
	d.End(result, !isResult, failure, secrets)
}
