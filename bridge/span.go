// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// EndSpan ends the span of a message with what has become of it. on and about say how its edge showed the response. For a
// message that never became a request, resp has only the error.
func EndSpan(span *tracing.Span, resp *Response, on errmap.Protocol, about errmap.About) {
	if !span.IsRecording() {
		span.End(tracing.Outcome{})
		return
	}
	span.End(resp.SpanOutcome(on, about))
}

// SpanOutcome returns the outcome of a response for its span, by OpenTelemetry's conventions; see [errmap.Status]. A native
// tool that answers with a failure has failed, although its answer is a result.
func (r *Response) SpanOutcome(on errmap.Protocol, about errmap.About) tracing.Outcome {
	code, failed := outcomeCode(r), r.Err
	if code == "" {
		if on != errmap.ConnectRPC {
			return tracing.Outcome{}
		}
		return tracing.Outcome{Attributes: []tracing.Attribute{tracing.Text(tracing.StatusCode, errmap.StatusOK)}}
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
	attributes := []tracing.Attribute{tracing.Text(tracing.StatusCode, status.Code), tracing.Text(tracing.ErrorCode, string(code))}
	if cause := causeOf(r.Err); cause != "" {
		// Not as the description of the status: errors that are the caller's own have none.
		attributes = append(attributes, tracing.Text(logkey.ExceptionMessage, cause))
	}
	return tracing.Outcome{ErrorType: status.Type, Message: failed.Described(), Attributes: attributes}
}

// TraceID returns the id of the request's trace: that of its span, or without tracing the one that its caller sent; "" for
// none.
func (r *Request) TraceID() string { return traceID(r.Span, r.Header) }

func traceID(span *tracing.Span, h http.Header) string {
	if span != nil {
		return span.TraceID()
	}
	return record.TraceID(h.Get(traceparent))
}

// TraceFields returns the log fields that tie a line to a trace: trace_id, and with tracing span_id. span may be nil; h are
// the headers of the message.
func TraceFields(span *tracing.Span, h http.Header) []zap.Field {
	return appendTrace(make([]zap.Field, 0, 2), span, h)
}

func appendTrace(fields []zap.Field, span *tracing.Span, h http.Header) []zap.Field {
	fields = append(fields, zap.String(logkey.TraceID, traceID(span, h)))
	if span != nil {
		fields = append(fields, zap.String(logkey.SpanID, span.SpanID()))
	}
	return fields
}

// calling returns the context of a call of the backend in which each attempt is a span.
func (r *Request) calling(ctx context.Context, call *resilience.Call) context.Context {
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
		r.Span.Set(tracing.Text(tracing.CanonicalTool, tool.Name))
		return
	}
	name := r.toolName(tool)
	r.Span.Found(name)
	r.Span.Set(tracing.Text(tracing.ToolName, name), tracing.Text(tracing.CanonicalTool, tool.Name),
		tracing.Text(tracing.OperationName, tracing.ExecuteTool))
}

// toolName is the name by which callers of the request's edge know a tool.
func (r *Request) toolName(tool *catalog.Tool) string {
	if r.Names == NamesMCP {
		return tool.MCPName
	}
	return tool.Name
}

// tracePayloads adds the arguments and the result of a call to its span, where it takes them. A question and a task are no
// results: what they seal is for the caller alone.
func (f *Flight) tracePayloads(resp *Response) {
	in := f.meter.traced
	if in == nil {
		return
	}
	span, tool := f.req.Span, resp.Tool
	arguments := f.bridge.argumentsOf(in, tool)
	span.Payload(tracing.ToolArguments, arguments.JSON, arguments.Size, arguments.Secret)
	if outcomeCode(resp) == "" && !resp.Silent && resp.inputRequired() == nil && resp.Outcome.GetTask() == nil {
		most, _ := span.Payloads()
		result := f.bridge.outputOf(resp, resp.size(), most)
		span.Payload(tracing.ToolResult, result.JSON, result.Size, result.Secret)
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
		c.req.Span.Set(tracing.Int(tracing.QueueWait, c.place.Waited.Microseconds()))
	}
	c.req.Span.Step(tracing.StepQueue, start)
}

// maxTracedURI bounds the URI of a resource in a span.
const maxTracedURI = 1024

// traceURI adds the URI of the resource that a request reads. It is never a part of the span's name.
func (r *Request) traceURI(uri string) {
	if r.Span.IsRecording() && uri != "" {
		r.Span.Set(tracing.Text(tracing.ResourceURI, strings.ToValidUTF8(uri[:min(len(uri), maxTracedURI)], "")))
	}
}

// tracePrompt names the prompt of a request in its span, once the backend has shown that it exists.
func (r *Request) tracePrompt(name string) {
	if r.Span.IsRecording() {
		r.Span.Found(name)
		r.Span.Set(tracing.Text(tracing.PromptName, name))
	}
}

// origin is the span of a call as the task that it may become knows it; nil without tracing.
func (r *Request) origin() []byte {
	if r.Span == nil {
		return nil
	}
	return tracing.AppendContext(make([]byte, 0, tracing.ContextSize), r.Span.Context())
}
