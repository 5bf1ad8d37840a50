// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// meter is what is measured of one request while it runs. It is written by the
// goroutine that runs the request.
type meter struct {
	// tool counts the calls of the tool; nil until it has been found.
	tool *stats.Series
	// checked is a call whose first steps are done; see [Request.taken].
	checked *toolCall
	// upstream is how long the request waited for others.
	upstream time.Duration
	// invoked is what the audit trail says of the request; nil where it says nothing.
	invoked *invocation
	// document is that of a call, where payloads are recorded.
	document *callDocument
	// traced are the arguments of a call whose span takes them; nil for others.
	traced *input
}

// found begins to count a call of a tool, once, however many rounds it takes.
func (b *Bridge) found(c *toolCall) {
	if m := c.req.meter; m != nil && m.tool == nil {
		m.tool = b.opts.Stats.Tool(c.tool.Name)
		m.tool.Begin()
		m.document.found(c.tool)
		c.req.traceTool(c.tool)
	}
}

// waited adds the time since start to what was spent waiting for others.
func (r *Request) waited(start time.Time) {
	if r.meter != nil {
		r.meter.upstream += time.Since(start)
	}
}

// ended counts the end of a request and writes the one line that it leaves.
func (f *Flight) ended(resp *Response) {
	b, now := f.bridge, time.Now()
	code, took := outcomeCode(resp), now.Sub(f.start)
	if resp.Err != nil {
		b.opts.Stats.Over(resp.Err.Limit)
	}
	edge := stats.EdgeOf(f.req.Transport, f.req.Route, f.req.Procedure != "")
	series := f.meter.tool
	if f.req.Op == OpCall {
		if series == nil {
			series = b.opts.Stats.Tool("") // no such tool, or none that could be looked up
			series.Begin()
		}
		series.End(stats.End{Code: code, Edge: edge, Took: took, Upstream: f.meter.upstream, Trace: traceOf(f.req.Span)})
	} else {
		b.opts.Stats.Operation(int(f.req.Op)).Count(edge, code)
	}
	b.countMCP(f.req, resp, series, took)
	f.audit(resp, edge, code, took)
	b.endDocument(f.meter.document, resp, code)
	f.tracePayloads(resp)
	entry := b.log.Check(f.level(code, now))
	if entry == nil {
		return
	}
	fields := append(f.fields(resp, edge, took), failure(resp.Err)...)
	entry.Write(fields...)
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
	Span *tracing.Span
	Err  *errmap.Error
}

// Refused counts and logs a message that an edge refused before it became a request.
func (b *Bridge) Refused(r *Refusal) {
	edge := stats.EdgeOf(r.Transport, r.Route, false)
	b.opts.Stats.Operation(int(OpInvalid)).Count(edge, r.Err.Code)
	b.opts.Stats.Over(r.Err.Limit)
	if r.Transport == transportHTTP && isHTTPRefusal(r.Err.Code) {
		b.opts.Stats.HTTPRefused(edge, r.Err.Code)
	}
	// A request without valid credentials has left its line where it was refused.
	if r.Err.Code != errmap.Unauthenticated && b.log.Core().Enabled(zap.InfoLevel) && b.opts.CallLog.admitsRefusal(time.Now()) {
		fields := appendOrigin(make([]zap.Field, 0, 10), edge, r.Route)
		if edge.IsJSONRPC() {
			fields = append(fields, RequestID(r.ID))
		}
		b.log.Info("message refused", append(appendTrace(fields, r.Span, r.Header),
			zap.String(logkey.Caller, r.Caller), zap.String(logkey.ErrorCode, string(r.Err.Code)), logkey.Error(errors.New(errmap.Redact(r.Err.Error()))))...)
	}
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

// traceparent is the header of the W3C trace context that names the trace.
const traceparent = "traceparent"

// outcomeCode is the canonical code that a request is counted under, empty for
// success. A native tool that answers with a failure has failed, although its
// answer is a result.
func outcomeCode(resp *Response) errmap.Code {
	if resp.Err != nil {
		return resp.Err.Code
	}
	if result := resp.Outcome.GetResult(); result.GetStatus() == StatusFailure {
		return errmap.ToolExecutionFailed
	}
	return ""
}

// level is where the line of a request goes, and what it is called. Faults of the
// sidecar are always logged; what is no tool call shows only where it fails.
func (f *Flight) level(code errmap.Code, now time.Time) (level zapcore.Level, message string) {
	message = "request"
	if f.req.Op == OpCall {
		message = "call"
	}
	switch {
	case code == errmap.InternalError:
		return zap.ErrorLevel, message
	case f.req.Op != OpCall && code == "":
		return zap.DebugLevel, message
	case f.bridge.log.Core().Enabled(zap.InfoLevel) && !f.bridge.opts.CallLog.admits(now, code != ""):
		return zap.DebugLevel, message
	}
	return zap.InfoLevel, message
}

// fields are what the line of a request says. A key that does not apply is left out, as in spans.
func (f *Flight) fields(resp *Response, edge stats.Edge, took time.Duration) []zap.Field {
	req := f.req
	fields := appendOrigin(make([]zap.Field, 0, 18), edge, req.Route)
	fields = append(fields, zap.String(logkey.Operation, req.Op.String()))
	if edge.IsJSONRPC() {
		fields = appendText(fields, logkey.Method, req.Method)
		fields = append(fields, RequestID(req.ID))
	}
	fields = append(appendTrace(fields, req.Span, req.Header), zap.String(logkey.Caller, req.Caller))
	if resp.Tool != nil {
		fields = append(fields, zap.String(logkey.Tool, req.toolName(resp.Tool)), zap.String(logkey.CanonicalTool, resp.Tool.Name))
	}
	on := req.Protocol
	if isRPC(edge) {
		on = errmap.ConnectRPC
	}
	outcome := resp.SpanOutcome(on, errmap.About{ToolCall: req.Op == OpCall})
	for _, a := range outcome.Attributes {
		fields = append(fields, zap.String(string(a.Key), a.Value.AsString()))
	}
	fields = appendText(fields, logkey.ErrorType, outcome.ErrorType)
	fields = append(fields, zap.Duration("duration_ms", took))
	if f.meter.upstream > 0 {
		fields = append(fields, zap.Duration("upstream_duration_ms", f.meter.upstream))
	}
	return fields
}

// appendOrigin appends where a message arrived. Its route is the method on the edges for RPCs, and none on stdio.
func appendOrigin(fields []zap.Field, edge stats.Edge, route string) []zap.Field {
	fields = append(fields, zap.Stringer(logkey.Edge, edge))
	switch {
	case isRPC(edge):
		return append(fields, zap.String(logkey.RPCMethod, strings.TrimPrefix(route, "/")))
	case edge == stats.EdgeMCP, edge == stats.EdgeRPC:
		return append(fields, zap.String(logkey.HTTPRoute, route))
	}
	return fields
}

// isRPC reports whether the callers of an edge speak Connect, gRPC or gRPC-Web.
func isRPC(edge stats.Edge) bool {
	switch edge {
	case stats.EdgeConnect, stats.EdgeGRPC, stats.EdgeGRPCWeb, stats.EdgeTyped:
		return true
	}
	return false
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
