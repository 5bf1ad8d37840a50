// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"path"
	"slices"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// BeginMessage does what must happen in reading order: it records the message,
// checks it, registers a request, and performs a cancellation. The returned
// function does the rest and must be called exactly once, on any goroutine. It
// returns a pointer, because it may wait for days in a stream of changes, and a
// reply on its stack would occupy memory as long.
//
// A panic in reading or writing becomes INTERNAL_ERROR, like one in the pipeline:
// on a stream it must not affect other requests.
func (h *Handler) BeginMessage(ctx context.Context, in *Inbound) func() *Reply {
	reply, run := h.TakeMessage(ctx, in)
	if reply != nil {
		return func() *Reply { return reply }
	}
	return run
}

// TakeMessage is [Handler.BeginMessage] for edges with a queue. If nothing is left
// to run, because the message is not a request or is rejected, it returns the
// reply. Otherwise it returns the function that runs the request.
func (h *Handler) TakeMessage(ctx context.Context, in *Inbound) (reply *Reply, run func() *Reply) {
	in.span = h.startSpan(in)
	entry := h.recorded(in)
	reply, run = h.beginUnrecorded(ctx, in)
	switch {
	case entry == nil && in.span == nil:
		return reply, run
	case reply != nil:
		h.ended(entry, in, reply)
		return reply, nil
	}
	work := run // the result run is what is returned here
	return nil, func() *Reply {
		reply := work()
		h.ended(entry, in, reply)
		return reply
	}
}

// recorded begins the line of one envelope.
func (h *Handler) recorded(in *Inbound) *trail.Entry {
	if h.opts.Record == nil {
		return nil
	}
	return h.opts.Record.Begin(trail.Arrival{
		RequestID: in.Message.ID.Raw(),
		TraceID:   trail.TraceID(withTraceContext(in.Header, in.meta()).Get("traceparent")),
		Transport: recordedTransport(in.Transport), Route: in.Route, Method: in.Message.Method, Caller: in.Caller, Params: in.Message.Params,
	})
}

// RecordCall begins the line and the span of a request of an edge that does not speak JSON-RPC, and
// returns the function that ends both, which must be called.
func (h *Handler) RecordCall(ctx context.Context, req *bridge.Request) (end func(*bridge.Response)) {
	isOwn := h.startCall(ctx, req)
	recorded := h.recordCall(req)
	if !isOwn {
		return recorded
	}
	return func(resp *bridge.Response) {
		recorded(resp)
		bridge.EndSpan(req.Span, resp, errmap.ConnectRPC, resp.About(nil))
	}
}

// recordCall is RecordCall for the line.
func (h *Handler) recordCall(req *bridge.Request) (end func(*bridge.Response)) {
	if h.opts.Record == nil {
		return func(*bridge.Response) {}
	}
	arrival := trail.Arrival{
		RequestID: req.ID.Raw(), TraceID: trail.TraceID(req.Header.Get("traceparent")),
		Transport: recordedTransport(req.Transport), Route: req.Route, Method: path.Base(req.Route), Caller: req.Caller,
	}
	var wire []byte
	switch {
	case !h.opts.RecordPayloads:
	case req.Arguments.Encoding == bridge.EncodingProtobuf && len(req.Arguments.Bytes) <= h.opts.Record.MaxPayloadBytes():
		wire = slices.Clone(req.Arguments.Bytes) // the tool, which is not known yet, makes JSON of it
	default:
		arrival.Params = req.Arguments.Bytes
	}
	entry := h.opts.Record.Begin(arrival)
	return func(resp *bridge.Response) {
		out := h.recordedCall(resp)
		if wire != nil {
			out.Params = orOpaque(resp.Tool.ArgumentsJSON(wire), wire)
		}
		entry.End(out)
	}
}

// orOpaque is the JSON of a message, or its bytes where it has none: the record then notes
// how many there are.
func orOpaque(text, wire []byte) []byte {
	if text == nil {
		return wire
	}
	return text
}

// recordedCall is what the line says of the end of such a request.
func (h *Handler) recordedCall(resp *bridge.Response) trail.Outcome {
	out := trail.Outcome{OK: resp.Err == nil}
	if resp.Tool != nil {
		out.Tool = resp.Tool.Name
	}
	if resp.Err != nil {
		shown := resp.Err.JSONRPC(errmap.About{ToolCall: resp.Tool != nil})
		out.Error, out.HTTPStatus, out.Code = shown.Data, shown.HTTPStatus, shown.Code
	}
	if h.opts.RecordPayloads {
		out.Result = resp.Result.Bytes
		if resp.Result.Encoding == bridge.EncodingProtobuf && len(out.Result) <= h.opts.Record.MaxPayloadBytes() {
			out.Result = orOpaque(resp.Tool.ResultJSON(out.Result), out.Result)
		}
		if resp.Tool != nil {
			out.Redact = h.runner.Secrets(resp.Tool, resp.Err)
		}
	}
	return out
}

// recordedTransport is how an envelope came: the three protocols of the tool API are all
// HTTP.
func recordedTransport(transport string) string {
	if transport == "stdio" {
		return transport
	}
	return "http"
}

// ended ends the line and the span of one envelope. It is apart from the wait before it,
// which should not hold what it needs.
func (h *Handler) ended(entry *trail.Entry, in *Inbound, reply *Reply) {
	if entry != nil {
		entry.End(h.recordedOutcome(in, reply))
	}
	in.endSpan(reply)
}

// recordedOutcome is what the line says of the end. The numbers are those of
// the canonical table on every edge, so that lines can be compared across them.
func (h *Handler) recordedOutcome(in *Inbound, reply *Reply) trail.Outcome {
	out := trail.Outcome{OK: reply.err == nil}
	if reply.err != nil {
		out.Error, out.HTTPStatus, out.Code = reply.data, reply.err.HTTPStatus(), reply.err.JSONRPCCode()
		if out.Error == nil {
			out.Error = reply.err.Data(errmap.About{RequestID: in.Message.ID.Raw(), ToolCall: reply.tool != nil})
		}
	}
	if reply.tool != nil {
		out.Tool = reply.tool.Name
	}
	if h.opts.RecordPayloads {
		out.Result = reply.Bytes()
		if reply.tool != nil {
			out.Redact = h.runner.Secrets(reply.tool, reply.err)
		}
	}
	return out
}
