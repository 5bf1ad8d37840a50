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
		Tool: tool, Method: req.Method, Version: req.revision(), Transport: edge.Transport(),
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

// revision is the caller's revision of MCP, or "" if it has none that is known. A client that opens
// a session has agreed on one, although its request has no era yet.
func (r *Request) revision() string {
	switch agreed := r.Context.GetProtocolVersion(); {
	case r.Protocol != errmap.ModernMCP && r.Protocol != errmap.LegacyMCP:
		return ""
	case isDate(r.Era):
		return r.Era
	case r.Op == OpOpen && isDate(agreed):
		return agreed
	}
	return ""
}

// isDate tells the name of a revision from other names of eras.
func isDate(era string) bool {
	const form = "2006-01-02"
	return len(era) == len(form) && era[4] == form[4] && era[7] == form[7]
}

// traceOf names a span for exemplars. Only sampled spans can be looked up.
func traceOf(span *tracing.Span) stats.Trace {
	of := span.Context()
	if !of.IsSampled() {
		return stats.Trace{}
	}
	return stats.Trace{TraceID: of.TraceID(), SpanID: of.SpanID()}
}
