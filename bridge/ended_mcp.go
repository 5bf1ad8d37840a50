// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// CountRefused counts a request that its edge refused before it began, by its method, beside
// what [Bridge.Refused] counts of messages. Nothing has measured how long that took: the
// duration is zero.
func (b *Bridge) CountRefused(req *Request, err *errmap.Error) {
	var tool *stats.Series
	if req.Op == OpCall {
		tool = b.opts.Stats.Tool("") // it was not looked up
	}
	b.countMCP(req, &Response{Err: err}, tool, 0)
}

// countMCP counts a finished request by OpenTelemetry's conventions for MCP. They do not speak
// of requests by other protocols, or of what no caller asked for.
func (b *Bridge) countMCP(req *Request, resp *Response, tool *stats.Series, took time.Duration) {
	edge := stats.EdgeOf(req.Transport, req.Route, req.Procedure != "")
	if req.Method == "" || !edge.IsJSONRPC() {
		return
	}
	status := mcpStatus(req, resp)
	b.opts.Stats.EndMCP(stats.MCPRequest{
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
func traceOf(span *tracing.Span) stats.Trace {
	of := span.Context()
	if !of.IsSampled() {
		return stats.Trace{}
	}
	return stats.Trace{TraceID: of.TraceID(), SpanID: of.SpanID()}
}
