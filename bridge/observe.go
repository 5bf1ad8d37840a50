// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/trail"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// meter is what is measured of one request while it runs. It is written by the
// goroutine that runs the request.
type meter struct {
	// tool counts the calls of the tool; nil until it has been found.
	tool *telemetry.Series
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

// counter counts requests that have ended.
type counter struct{ stats *telemetry.Stats }

// found begins to count a call of a tool, once, however many rounds it takes.
func (n *counter) found(c *toolCall) {
	if m := c.req.meter; m != nil && m.tool == nil {
		m.tool = n.stats.Tool(c.tool.Name)
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

// observer notes requests that have ended: it counts, audits, records, traces or logs them. It gets each request once, with all
// that is known of its end.
type observer interface{ ended(f *Flight) }

// ended notes the end of a request and tells all observers.
func (f *Flight) ended(resp *Response) {
	f.resp, f.code, f.at = resp, outcomeCode(resp), time.Now()
	f.edge, f.took = telemetry.EdgeOf(f.req.Transport, f.req.Route, f.req.Procedure != ""), f.at.Sub(f.start)
	for _, o := range f.bridge.observers {
		o.ended(f)
	}
}

// ended implements [observer].
func (n *counter) ended(f *Flight) {
	if f.resp.Err != nil {
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
	callLog *CallLog
}

// ended implements [observer].
func (l *lines) ended(f *Flight) {
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

// Refused counts and logs a message that an edge refused before it became a request.
func (b *Bridge) Refused(r *Refusal) {
	edge := telemetry.EdgeOf(r.Transport, r.Route, false)
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
	if result := resp.Outcome.GetResult(); result.GetStatus() == content.StatusFailure {
		return errmap.ToolExecutionFailed
	}
	return ""
}

// level is where the line of a request goes, and what it is called. Faults of the
// sidecar are always logged; what is no tool call shows only where it fails.
func (l *lines) level(f *Flight) (level zapcore.Level, message string) {
	message = "request"
	if f.req.Op == OpCall {
		message = "call"
	}
	switch {
	case f.code == errmap.InternalError:
		return zap.ErrorLevel, message
	case f.req.Op != OpCall && f.code == "":
		return zap.DebugLevel, message
	case l.log.Core().Enabled(zap.InfoLevel) && !l.callLog.admits(f.at, f.code != ""):
		return zap.DebugLevel, message
	}
	return zap.InfoLevel, message
}

// fields are what the line of a request says. A key that does not apply is left out, as in spans.
func (f *Flight) fields() []zap.Field {
	req, resp, edge := f.req, f.resp, f.edge
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
	fields = append(fields, zap.Duration("duration_ms", f.took))
	if f.meter.upstream > 0 {
		fields = append(fields, zap.Duration("upstream_duration_ms", f.meter.upstream))
	}
	return fields
}

// appendOrigin appends where a message arrived. Its route is the method on the edges for RPCs, and none on stdio.
func appendOrigin(fields []zap.Field, edge telemetry.Edge, route string) []zap.Field {
	fields = append(fields, zap.Stringer(logkey.Edge, edge))
	switch {
	case isRPC(edge):
		return append(fields, zap.String(logkey.RPCMethod, strings.TrimPrefix(route, "/")))
	case edge == telemetry.EdgeMCP, edge == telemetry.EdgeRPC:
		return append(fields, zap.String(logkey.HTTPRoute, route))
	}
	return fields
}

// isRPC reports whether the callers of an edge speak Connect, gRPC or gRPC-Web.
func isRPC(edge telemetry.Edge) bool {
	switch edge {
	case telemetry.EdgeConnect, telemetry.EdgeGRPC, telemetry.EdgeGRPCWeb, telemetry.EdgeTyped:
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

// CountRefused counts a request that its edge refused before it began, by its method, beside
// what [Bridge.Refused] counts of messages. Nothing has measured how long that took: the
// duration is zero.
func (n *counter) CountRefused(req *Request, err *errmap.Error) {
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
	status := mcpStatus(req, resp)
	n.stats.EndMCP(telemetry.MCPRequest{
		Tool: tool, Method: req.Method, Version: req.Revision, Transport: edge.Transport(),
		ErrorType: status.Type, Status: status.Code, Took: took, Trace: traceOf(req.Span),
	})
}

// mcpStatus is what the span of the request says of its end, too.
func mcpStatus(req *Request, resp *Response) errmap.Status {
	about := errmap.About{ToolCall: req.Op == OpCall}
	if resp.Err != nil {
		return resp.Err.Status(req.Protocol, about)
	}
	code := outcomeCode(resp)
	if code == "" {
		return errmap.Status{}
	}
	return errmap.Status{Code: errmap.New(code).Status(req.Protocol, about).Code, Type: errmap.TypeToolError}
}

// traceOf names a span for exemplars. Only sampled spans can be looked up.
func traceOf(span *telemetry.Span) telemetry.Trace {
	of := span.Context()
	if !of.IsSampled() {
		return telemetry.Trace{}
	}
	return telemetry.Trace{TraceID: of.TraceID(), SpanID: of.SpanID()}
}

// CallLogMode says which tool calls leave a line in the log: all, those that failed, or
// none.
type CallLogMode uint32

// The modes. logAllCalls is the zero value. logFailedCalls leaves out those that
// succeeded, logNoCalls all but those that failed through a fault of the sidecar.
const (
	logAllCalls CallLogMode = iota
	logFailedCalls
	logNoCalls
)

// ParseCallLogMode reads a mode from "all", "failed" or "off".
func ParseCallLogMode(s string) (CallLogMode, error) {
	switch s {
	case "all":
		return logAllCalls, nil
	case "failed":
		return logFailedCalls, nil
	case "off":
		return logNoCalls, nil
	}
	return logAllCalls, fmt.Errorf("log calls %q: want all, failed or off", s)
}

// CallLog decides which calls leave a line in the log. Calls that succeed and calls
// that fail have separate budgets per second; calls above the budget are counted. Its
// settings can change at run time. A nil CallLog logs every call. Make one with
// [NewCallLog].
type CallLog struct {
	mode    atomic.Uint32
	most    atomic.Int64
	done    budget
	failed  budget
	refused budget
	skipped atomic.Uint64
}

// NewCallLog returns a CallLog that logs at most perSecond lines of each kind; 0 means
// 100.
func NewCallLog(mode CallLogMode, perSecond int) *CallLog {
	l := &CallLog{}
	l.Set(mode, perSecond)
	return l
}

// Set changes the mode and the rate.
func (l *CallLog) Set(mode CallLogMode, perSecond int) {
	defaults.Fill(&perSecond, defaults.LogMaxCallsPerSecond)
	l.mode.Store(uint32(mode))
	l.most.Store(int64(perSecond))
}

// Skipped returns the number of calls that were not logged because of the rate. Calls
// that the mode leaves out do not count.
func (l *CallLog) Skipped() uint64 {
	if l == nil {
		return 0
	}
	return l.skipped.Load()
}

// admits reports whether a call that ended at this time leaves a line.
func (l *CallLog) admits(now time.Time, failed bool) bool {
	if l == nil {
		return true
	}
	mode, of := CallLogMode(l.mode.Load()), &l.done
	if failed {
		of = &l.failed
	}
	if mode == logNoCalls || mode == logFailedCalls && !failed {
		return false
	}
	if of.take(now.Unix(), l.most.Load()) {
		return true
	}
	l.skipped.Add(1)
	return false
}

// admitsRefusal reports whether a message that never became a request leaves a line.
// Without authentication anyone can send one, so there are few.
func (l *CallLog) admitsRefusal(now time.Time) bool {
	if l == nil {
		return true
	}
	if CallLogMode(l.mode.Load()) == logNoCalls {
		return false
	}
	if l.refused.take(now.Unix(), min(l.most.Load(), loglimit.PerSecond)) {
		return true
	}
	l.skipped.Add(1)
	return false
}

// budget counts lines within one second. At the turn of a second a few lines may
// go uncounted, which is cheaper than a lock for all.
type budget struct{ second, used atomic.Int64 }

func (b *budget) take(second, most int64) bool {
	if was := b.second.Load(); was != second && b.second.CompareAndSwap(was, second) {
		b.used.Store(0)
	}
	return b.used.Add(1) <= most
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
	var status errmap.Status
	if failed == nil {
		failed = errmap.New(code)
		status = errmap.Status{Code: failed.Status(on, about).Code, Type: errmap.TypeToolError}
		if on == errmap.ConnectRPC {
			status.Code = errmap.StatusOK // the RPC itself did not fail
		}
	} else {
		status = failed.Status(on, about)
	}
	attributes := []telemetry.Attribute{telemetry.Text(telemetry.StatusCode, status.Code), telemetry.Text(telemetry.ErrorCode, string(code))}
	if cause := causeOf(r.Err); cause != "" {
		// Not as the description of the status: errors that are the caller's own have none.
		attributes = append(attributes, telemetry.Text(logkey.ExceptionMessage, cause))
	}
	return telemetry.Outcome{ErrorType: status.Type, Message: failed.Described(), Attributes: attributes}
}

// TraceID returns the id of the request's trace: that of its span, or without tracing the one that its caller sent; "" for
// none.
func (r *Request) TraceID() string { return traceID(r.Span, r.Header) }

func traceID(span *telemetry.Span, h http.Header) string {
	if span != nil {
		return span.TraceID()
	}
	return trail.TraceID(h.Get(traceparent))
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

// calling returns the context of a call of the backend in which each attempt is a span.
func (r *Request) calling(ctx context.Context, call *backend.GuardedCall) context.Context {
	if r.Span == nil {
		return ctx
	}
	ctx, calls := r.Span.Calls(ctx)
	call.Attempts = calls
	return ctx
}

// traceTool names the tool of a request in its span.
func (r *Request) traceTool(tool *catalog.Tool) {
	if !r.Span.IsRecording() {
		return
	}
	if r.Op != OpCall {
		r.Span.Set(telemetry.Text(telemetry.CanonicalTool, tool.Name))
		return
	}
	name := r.toolName(tool)
	r.Span.Found(name)
	r.Span.Set(telemetry.Text(telemetry.ToolName, name), telemetry.Text(telemetry.CanonicalTool, tool.Name),
		telemetry.Text(telemetry.OperationName, telemetry.ExecuteTool))
}

// toolName is the name by which callers of the request's edge know a tool.
func (r *Request) toolName(tool *catalog.Tool) string {
	if r.Names == NamesMCP {
		return tool.MCPName
	}
	return tool.Name
}

// spans adds what was sent and answered to the spans of calls. Edges end the spans.
type spans struct{ payloads *payloads }

// ended implements [observer]: it adds the arguments and the result of a call to its span, where it takes them. A question and a task are no
// results: what they seal is for the caller alone.
func (s *spans) ended(f *Flight) {
	in, resp := f.meter.traced, f.resp
	if in == nil {
		return
	}
	span, tool := f.req.Span, resp.Tool
	arguments := s.payloads.argumentsOf(in, tool)
	span.Payload(telemetry.ToolArguments, arguments.JSON, arguments.Size, arguments.Secret)
	if f.code == "" && !resp.Silent && resp.inputRequired() == nil && resp.Outcome.GetTask() == nil {
		most, _ := span.Payloads()
		result := s.payloads.outputOf(resp, resp.size(), most)
		span.Payload(telemetry.ToolResult, result.JSON, result.Size, result.Secret)
	}
}

// tracedInput keeps the arguments of a request whose span takes them; nil for others.
func tracedInput(req *Request) *input {
	most, ok := req.Span.Payloads()
	if !ok || req.Op != OpCall {
		return nil
	}
	in := newInput(req, req.size(), most)
	return &in
}

// traceQueue adds the wait for a slot that began at start, and how long it was.
func (c *toolCall) traceQueue(start time.Time) {
	if c.place.Waited > 0 && c.req.Span.IsRecording() {
		c.req.Span.Set(telemetry.Int(telemetry.QueueWait, c.place.Waited.Microseconds()))
	}
	c.req.Span.Step(telemetry.StepQueue, start)
}

// origin is the span of a call as the task that it may become knows it; nil without tracing.
func (r *Request) origin() []byte {
	if r.Span == nil {
		return nil
	}
	return telemetry.AppendContext(make([]byte, 0, telemetry.ContextSize), r.Span.Context())
}

// Names of the rules that are no rule of a policy file.
const (
	ruleGate   = "destructive_gate"
	ruleGrants = "grants"
	// ruleTakeover is that of a call which another replica was allowed to begin.
	ruleTakeover = "takeover"
)

// invocation is what the audit trail says of a request while it runs. It is written by the
// goroutine that runs the request.
type invocation struct {
	// mu guards event, which the end of a drain reads; isOver: its line is written.
	mu     sync.Mutex
	isOver bool
	event  trail.Event
	// reached: the request is about to reach the backend, or has.
	reached bool
	// consented: the user agreed to the call.
	consented bool
	// input is what came as arguments, where payloads are recorded.
	input input
}

// isAudited holds for operations that leave a line whatever becomes of them: invocations
// of tools, resources and prompts, completions, and what is about a task. Others leave one
// where the caller was refused.
func (o Op) isAudited() bool {
	switch o {
	case OpCall, OpReadResource, OpGetPrompt, OpComplete, OpGetTask, OpUpdateTask, OpCancelTask:
		return true
	case OpInvalid, OpList, OpGet, OpServer, OpPing, OpListResources, OpListTemplates, OpListPrompts, OpListSkills, OpGetSkill, OpReadDirectory, OpOpen, OpListen:
	}
	return false
}

// auditor writes the audit trail.
type auditor struct {
	*directory
	*gatekeeper
	*payloads

	trail *trail.Audit
	noted *zap.Logger
}

// invoked begins the line of a request; nil for operations that leave none.
func (a *auditor) invoked(req *Request, who *identity.Identity) *invocation {
	if !req.Op.isAudited() {
		return nil
	}
	return a.newInvocation(req, who)
}

func (a *auditor) newInvocation(req *Request, who *identity.Identity) *invocation {
	inv := &invocation{event: trail.Event{
		ID: a.trail.NewID(), Caller: auditCaller(who, req.Peer, req.Caller), Route: req.Route, Era: req.Era,
		Edge:      telemetry.EdgeOf(req.Transport, req.Route, req.Procedure != "").String(),
		Operation: req.audited(), Target: req.target(), Trust: a.gatekeeper.trustOf(who, req.Caller).String(),
		RequestID: req.ID.Raw(), TraceID: req.TraceID(),
		BytesIn: req.size(),
	}}
	if most, ok := a.trail.HasPayloads(); ok {
		inv.input = newInput(req, inv.event.BytesIn, most)
	}
	return inv
}

// auditCaller is a caller as the trail names it.
func auditCaller(who *identity.Identity, peer, caller string) trail.Caller {
	out := trail.Caller{Address: CallerAddress(peer)}
	if who == nil {
		if peer == "" {
			out.Address = caller
		}
		return out
	}
	facts := who.Facts()
	out.Name, out.Subject, out.Issuer, out.ClientID, out.Source = who.Name(), facts.Subject, facts.Issuer, facts.ClientID, string(facts.Source)
	return out
}

// target is what a request names beside a tool that exists.
func (r *Request) target() string {
	switch m := r.Message.(type) {
	case *outriggerv1.ReadResourceRequest:
		return m.GetUri()
	case *outriggerv1.GetSkillRequest:
		return m.GetUri()
	case *outriggerv1.ReadDirectoryRequest:
		return m.GetUri()
	case *outriggerv1.GetPromptRequest:
		return m.GetName()
	case *outriggerv1.CompleteRequest:
		if prompt := m.GetPrompt(); prompt != "" {
			return prompt
		}
		return m.GetResource()
	case interface{ GetTaskId() string }:
		return m.GetTaskId()
	}
	return orElse(r.name(), targetOf(r.Message))
}

// found notes the tool of an invocation. The name that the caller wrote is of no interest
// any more.
func (i *invocation) found(tool *catalog.Tool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if tool == nil || i.event.Tool != "" {
		return
	}
	i.event.Tool, i.event.Version, i.event.Fingerprint = tool.Name, tool.Version, tool.Fingerprint()
	i.event.Destructive = tool.Metadata.Destructive || tool.Annotations.Destructive != nil && *tool.Annotations.Destructive
	i.input.tool = tool
	if i.event.Operation == OpCall.String() { // a read that runs an RPC keeps its URI
		i.event.Target = ""
	}
}

// recordCall writes the first line of a call that is about to reach the backend, where the
// trail has one. It refuses the call where that must be recorded and cannot be.
func (a *auditor) recordCall(ctx context.Context, c *toolCall) *errmap.Error {
	inv := c.req.invocation()
	if inv == nil {
		return nil
	}
	inv.found(c.tool)
	inv.consented = inv.consented || c.blocked != nil && c.state.confirmed
	return a.recordBegin(ctx, c.req, inv)
}

// recordAsk is recordCall for a question to a native backend.
func (a *auditor) recordAsk(ctx context.Context, req *Request) *errmap.Error {
	if inv := req.invocation(); inv != nil {
		return a.recordBegin(ctx, req, inv)
	}
	return nil
}

// invocation is what the trail says of a request, nil where it says nothing.
func (r *Request) invocation() *invocation {
	if r.meter == nil {
		return nil
	}
	return r.meter.invoked
}

func (a *auditor) recordBegin(ctx context.Context, req *Request, inv *invocation) *errmap.Error {
	defer req.Span.Step(telemetry.StepAudit, req.Span.Now())
	inv.mu.Lock()
	inv.event.Decision = trail.Allowed
	if inv.consented {
		inv.event.Decision, inv.event.Rule = trail.Consented, ruleGate
	}
	if a.trail.HasBegins() {
		a.payloads.addArguments(inv)
	}
	begun := inv.event
	inv.mu.Unlock()
	err := a.trail.Begin(ctx, &begun) // this may wait for the disk
	inv.mu.Lock()
	inv.event = begun
	inv.mu.Unlock()
	inv.reached = err == nil
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, err)
	}
	a.noted.Error("call refused: it cannot be recorded in the audit trail (--audit-required)",
		append(TraceFields(req.Span, req.Header), RequestID(req.ID), logkey.Error(err))...)
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
		errmap.Message("Tool service unavailable: the call cannot be recorded in the audit trail, so the backend was not called"))
}

// ended implements [observer]: it writes the line of the request.
func (a *auditor) ended(f *Flight) {
	inv := f.meter.invoked
	if inv == nil {
		if f.code != errmap.PermissionDenied {
			return
		}
		inv = a.newInvocation(f.req, f.who)
	}
	inv.found(f.resp.Tool)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.isOver {
		return
	}
	inv.isOver = true
	e := &inv.event
	e.Edge, e.Duration = f.edge.String(), f.took
	e.Decision, e.Rule = inv.decision(f.req, f.resp, f.code)
	a.payloads.addArguments(inv)
	a.addOutcome(e, f.resp, f.code)
	a.trail.End(e)
}

// AuditUnfinished writes the lines of the invocations that have not ended although the grace
// period of a drain has, whatever they are doing. What becomes of them later leaves no line.
func (b *Bridge) AuditUnfinished() {
	for _, owner := range b.flights.Owners() {
		if f, ok := owner.(*Flight); ok {
			f.auditUnfinished()
		}
	}
}

// auditUnfinished writes the line of a request from beside the goroutine that runs it.
func (f *Flight) auditUnfinished() {
	inv := f.meter.invoked
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.isOver {
		return
	}
	inv.isOver = true
	e := &inv.event
	e.Code, e.Outcome, e.Duration = string(errmap.Unavailable), "unknown", time.Since(f.start)
	f.bridge.opts.Audit.End(e)
}

// addOutcome adds what the caller got.
func (a *auditor) addOutcome(e *trail.Event, resp *Response, code errmap.Code) {
	e.Code, e.Outcome, e.BytesOut = string(code), "result", resp.size()+resp.passed.out
	e.BytesIn += resp.passed.in
	if code == "" {
		e.Code = telemetry.OK
	}
	switch {
	case resp.Silent:
		e.Outcome = "cancelled"
	case resp.Err != nil:
		e.Outcome, e.Cause = "error", causeOf(resp.Err)
	case resp.inputRequired() != nil:
		e.Outcome = "input_required"
	case resp.Outcome.GetTask() != nil:
		e.Outcome = "task"
	}
	if most, ok := a.trail.HasPayloads(); ok {
		e.Result = a.payloads.outputOf(resp, resp.size(), most)
	}
}

// size is the size of what came as the arguments of a request.
func (r *Request) size() int {
	if r.Message != nil {
		return proto.Size(r.Message)
	}
	return len(r.Arguments.Bytes)
}

// size is the size of the result of a response.
func (r *Response) size() int {
	switch {
	case r.Err != nil:
		return 0
	case r.Outcome != nil:
		return proto.Size(r.Outcome)
	case r.Message != nil:
		return proto.Size(r.Message)
	}
	return len(r.Result.Bytes)
}

// decision is what the policy said in the end, and by which rule.
func (i *invocation) decision(req *Request, resp *Response, code errmap.Code) (trail.Decision, string) {
	rule := resp.Decision.Rule
	switch {
	case code == errmap.DestructiveBlocked:
		return trail.Denied, orElse(rule, ruleGate)
	case code == errmap.PermissionDenied:
		return trail.Denied, orElse(rule, ruleGrants)
	case resp.asksConsent():
		return trail.Asked, orElse(rule, ruleGate)
	case i.consented:
		return trail.Consented, orElse(rule, ruleGate)
	case i.reached, req.Op == OpCall && resp.Tool != nil, resp.Err == nil:
		return trail.Allowed, rule
	}
	return "", rule
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// asksConsent reports whether a response is the sidecar's own question.
func (r *Response) asksConsent() bool {
	_, ok := r.inputRequired().GetInputRequests()[confirmKey]
	return ok
}

// AuditRefused writes the line of a message that an edge refused before it became a
// request, if it asked for what leaves a line: req says as much of it as is known. A
// caller without valid credentials leaves no line, so that no stranger can fill a disk.
func (a *auditor) AuditRefused(ctx context.Context, req *Request, err *errmap.Error) {
	if req.Op.isAudited() {
		a.auditRefused(ctx, req, req.audited(), err)
	}
}

// AuditUnread is AuditRefused for a message that could not be read, so that it may have
// asked for anything.
func (a *auditor) AuditUnread(ctx context.Context, req *Request, err *errmap.Error) {
	a.auditRefused(ctx, req, operationUnknown, err)
}

// operationUnknown is the operation of a message that could not be read.
const operationUnknown = "unknown"

func (a *auditor) auditRefused(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	if !a.trail.IsOn() || err.Code == errmap.Unauthenticated {
		return
	}
	inv := a.newInvocation(req, identity.FromContext(ctx))
	if cat := a.directory.CatalogFor(ctx); cat != nil && req.Op == OpCall && req.name() != "" {
		if tool, unknown := lookup(cat, req); unknown == nil {
			inv.found(tool)
		}
	}
	inv.event.Operation, inv.event.Code, inv.event.Outcome = operation, string(err.Code), "error"
	a.trail.End(&inv.event)
}

// AuditDenied writes the line of an operation that an edge denied to a caller and that is no
// request, such as a stream; req says as much of it as is known. The name of the operation
// is that of an [Op], if there is one. Errors other than PERMISSION_DENIED leave no
// line.
func (a *auditor) AuditDenied(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	if !a.trail.IsOn() || err.Code != errmap.PermissionDenied {
		return
	}
	inv := a.newInvocation(req, identity.FromContext(ctx))
	e := &inv.event
	e.Operation, e.Decision, e.Rule = operation, trail.Denied, ruleGrants
	e.Code, e.Outcome = string(err.Code), "error"
	a.payloads.addArguments(inv)
	a.trail.End(e)
}

// recordSubscription writes the line of a subscription to a watch: it has the backend called in the name of its caller.
func (a *auditor) recordSubscription(ctx context.Context, req *Request, tool *catalog.Tool, uri string, said Decision) *errmap.Error {
	if !a.trail.IsOn() {
		return nil
	}
	inv := a.newInvocation(req, identity.FromContext(ctx))
	inv.found(tool)
	inv.event.Operation, inv.event.Target = OpListen.String(), uri
	if err := a.recordBegin(ctx, req, inv); err != nil {
		return err
	}
	inv.event.Decision, inv.event.Rule = trail.Allowed, said.Rule
	a.addOutcome(&inv.event, &Response{}, "")
	a.trail.End(&inv.event)
	return nil
}

// targetOf is what the message of a stream or of an event names; "" for other messages.
func targetOf(m proto.Message) string {
	switch m := m.(type) {
	case *outriggerv1.ChangeFilter:
		return strings.Join(m.GetResourceUris(), " ")
	case *outriggerv1.EventFilter:
		return strings.Join(m.GetMethods(), " ")
	case *outriggerv1.Notification:
		return m.GetMethod()
	}
	return ""
}

// audited is the operation of a request as the trail names it: that of which the request is
// a part.
func (r *Request) audited() string {
	if r.PartOf != OpInvalid {
		return r.PartOf.String()
	}
	return r.Op.String()
}

// input is what came as the arguments of a request, kept for the audit trail: the request
// forgets its own once the backend is called.
type input struct {
	bytes    []byte
	encoding Encoding
	size     int
	// tool, once it is known, says what is secret.
	tool *catalog.Tool
	// isAdded: the line has the arguments.
	isAdded bool
}

// newInput keeps arguments that are not too large to be recorded.
func newInput(req *Request, size, most int) input {
	in := input{encoding: req.Arguments.Encoding, size: size}
	switch {
	case size > most:
	case req.Message != nil:
		in.bytes = messageJSON(req.Message)
		in.size = len(in.bytes)
	default:
		in.bytes = slices.Clone(req.Arguments.Bytes)
	}
	return in
}

// messageJSON is the JSON of a message of the contract, nil where it has none.
func messageJSON(m proto.Message) []byte {
	out, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return out
}

// payloads shows arguments and results as JSON without what is secret in them.
type payloads struct{ secrets redact.Messages }

// addArguments adds the arguments to the line, as JSON.
func (p *payloads) addArguments(inv *invocation) {
	in := &inv.input
	if in.isAdded || in.size == 0 {
		return
	}
	in.isAdded = true
	inv.event.Arguments = p.argumentsOf(in, in.tool)
}

// argumentsOf is what came as arguments of a tool, as JSON. The tool may be nil.
func (p *payloads) argumentsOf(in *input, tool *catalog.Tool) trail.Payload {
	text := in.bytes
	if in.encoding == EncodingProtobuf && in.bytes != nil {
		text = tool.ArgumentsJSON(in.bytes)
	}
	out := trail.Payload{JSON: text, Size: in.size, Secret: p.secretInput(tool)}
	if text != nil {
		out.Size = len(text)
	}
	return out
}

// secretInput and secretOutput are what is secret in the messages of a tool. Those of a
// native tool have no type.
func (p *payloads) secretInput(t *catalog.Tool) *redact.Message {
	if t == nil || t.Native {
		return nil
	}
	in := p.secrets.Of(t.Method.Descriptor.Input())
	if !t.TakesStream() {
		return in
	}
	header := ""
	if fd := t.Stream.Header(); fd != nil {
		header = string(fd.Name())
	}
	return redact.Arguments(in, header)
}

func (p *payloads) secretOutput(t *catalog.Tool) *redact.Message {
	if t == nil || t.Native {
		return nil
	}
	out := p.secrets.Of(t.Method.Descriptor.Output())
	if t.Streams() {
		return redact.Items(out)
	}
	return out
}

// outputOf is the result of a response as JSON. Nothing is made of one that is too large.
func (p *payloads) outputOf(resp *Response, size, most int) trail.Payload {
	out := trail.Payload{Size: size}
	if size > most || resp.Err != nil {
		return out
	}
	switch {
	case resp.Outcome != nil:
		out.JSON = outcomeJSON(resp)
	case resp.Message != nil:
		out.JSON = messageJSON(resp.Message)
	case resp.Result.Encoding == EncodingProtobuf:
		out.JSON = resp.Tool.ResultJSON(resp.Result.Bytes)
	default:
		out.JSON = resp.Result.Bytes
	}
	out.Size, out.Secret = len(out.JSON), p.secretOutput(resp.Tool)
	return out
}

// outcomeJSON is the data of a result, or all of an outcome that is none or has no data.
func outcomeJSON(resp *Response) []byte {
	if result := resp.Outcome.GetResult(); result != nil {
		if data, err := content.FreeForm(result.GetDataJson(), result.GetData()); err == nil && len(data) > 0 {
			return data
		}
	}
	return messageJSON(resp.Outcome)
}

// callDocument is the document {tool, input, output} of a call while it runs. A nil one is
// not recorded. It is written by the goroutine that runs the request.
type callDocument struct {
	document *trail.Document
	id       []byte
	tool     *catalog.Tool
	input    input
}

// documents records the document {tool, input, output} of each call.
type documents struct {
	*payloads

	trail *trail.Documents
}

// newDocument begins the document of a request that calls a tool.
func (w *documents) newDocument(req *Request) *callDocument {
	if w.trail == nil || req.Op != OpCall {
		return nil
	}
	d := &callDocument{id: req.ID.Raw(), document: w.trail.Begin(req.ID.Raw())}
	d.input = newInput(req, req.size(), w.trail.MaxPayloadBytes())
	return d
}

// found notes the tool, which a response does not have after a panic.
func (d *callDocument) found(tool *catalog.Tool) {
	if d != nil {
		d.tool = tool
	}
}

// isTask leaves the document to the end of the task, which may come after any number of
// other calls.
func (d *callDocument) isTask() {
	if d != nil {
		d.document.Drop()
		d.document = nil
	}
}

// ended implements [observer].
func (w *documents) ended(f *Flight) { w.endDocument(f.meter.document, f.resp, f.code) }

// taskEnded writes the document of a call that has run on as a task.
func (w *documents) taskEnded(d *callDocument, resp *Response, code errmap.Code) {
	if d != nil {
		own := *d // the request has its own end
		own.document = w.trail.Begin(d.id)
		w.endDocument(&own, resp, code)
	}
}

// endDocument writes the document of a call that has ended. A request that named no tool that
// exists has none.
func (w *documents) endDocument(d *callDocument, resp *Response, code errmap.Code) {
	if d == nil || d.document == nil {
		return
	}
	if resp.Tool != nil {
		d.tool = resp.Tool
	}
	if d.tool == nil {
		d.document.Drop()
		return
	}
	call := trail.Call{
		Tool: d.tool.Name, IsFailed: code != "" || resp.Silent || resp.inputRequired() != nil || resp.Outcome.GetTask() != nil,
		Input: w.payloads.argumentsOf(&d.input, d.tool),
	}
	if !call.IsFailed {
		call.Output = w.payloads.outputOf(resp, resp.size(), w.trail.MaxPayloadBytes())
	}
	d.document.End(&call)
}
