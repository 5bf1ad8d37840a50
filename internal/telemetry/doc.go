// SPDX-License-Identifier: Apache-2.0

// Package telemetry makes the spans of requests, and counts how they end.
//
// Spans follow OpenTelemetry's semantic conventions for MCP and for RPCs. Everything about them works on a nil [Tracer], a nil
// [Span] and a nil [HTTPRequest], and costs nothing then. [Stats] are the counts of requests and calls. Package
// export, which most of the product cannot import because it reads most of the product, exports both.
//
// # A message
//
// An edge starts a [Span] for each message that it reads, sets Method and Span of its bridge.Request, and ends the span when
// the reply is known:
//
//	span := b.Tracer().Start(telemetry.Arrival{Method: "tools/call", Message: meta, Header: h})
//	...
//	bridge.EndSpan(span, resp, errmap.ModernMCP, about)
//
// bridge.EndSpan does it by the conventions: error.type, rpc.response.status_code, outrigger.error.code and the status of
// the span. For a message that was refused before it became a request, resp is a Response with only Err, and
// bridge.Refusal.Span has the span, for the log.
//
// # What is in between
//
// The pipeline adds the names of the tool and the prompt ([Span.Found]), steps that took long ([Span.Step]) and links. For a
// call of the backend it puts [Calls] into the context. The client of the backend starts a CLIENT span for each attempt
// there, whose context goes to the backend in place of the caller's.
//
// # Tasks and dialogues
//
// A call that goes on as a task has its own span ([Span.RunOn]) in the same trace, with a link to the call. Requests
// about the task link to the call that began it, and so does a call that is repeated with answers to the one that asked.
package telemetry
