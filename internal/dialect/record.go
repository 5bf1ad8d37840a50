// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/record"
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
	entry := h.recorded(in)
	reply, run = h.begin(ctx, in)
	switch {
	case entry == nil:
		return reply, run
	case reply != nil:
		h.recordEnd(entry, in, reply)
		return reply, nil
	}
	work := run // the result run is what is returned here
	return nil, func() *Reply {
		reply := work()
		h.recordEnd(entry, in, reply)
		return reply
	}
}

// recorded begins the line of one envelope. Only the JSON-RPC edges leave lines:
// an Exchange stream is Protobuf.
func (h *Handler) recorded(in *Inbound) *record.Entry {
	if h.opts.Record == nil || (in.Transport != "http" && in.Transport != "stdio") {
		return nil
	}
	return h.opts.Record.Begin(record.Arrival{
		RequestID: in.Message.ID.Raw(),
		TraceID:   record.TraceID(WithTraceContext(in.Header, in.meta()).Get("traceparent")),
		Transport: in.Transport, Route: in.Route, Method: in.Message.Method, Params: in.Message.Params,
	})
}

// recordEnd ends the line of one envelope. It stands apart from the wait before it,
// which should not hold what it needs.
func (h *Handler) recordEnd(entry *record.Entry, in *Inbound, reply *Reply) {
	entry.End(h.recordedOutcome(in, reply))
}

// recordedOutcome is what the line says of the end. The numbers are those of
// the canonical table on every edge, so that lines can be compared across them.
func (h *Handler) recordedOutcome(in *Inbound, reply *Reply) record.Outcome {
	out := record.Outcome{OK: reply.err == nil}
	if reply.err != nil {
		out.Error, out.HTTPStatus, out.Code = reply.data, reply.err.HTTPStatus(), reply.err.JSONRPCCode()
		if out.Error == nil {
			out.Error = reply.err.Data(errmap.About{RequestID: in.Message.ID.Raw(), ToolCall: reply.tool != nil})
		}
	}
	if h.opts.RecordPayloads {
		out.Result = reply.Bytes()
		if reply.tool != nil {
			out.Redact = redactedNames(reply.tool)
		}
	}
	return out
}

// redactedNames are the names of the fields that a tool's messages mark with
// debug_redact, in both forms. It is worked out per call, because payloads are
// recorded while something is looked into, not every day.
func redactedNames(tool *catalog.Tool) []string {
	var names []string
	seen := map[protoreflect.FullName]bool{}
	var walk func(protoreflect.MessageDescriptor)
	walk = func(md protoreflect.MessageDescriptor) {
		if seen[md.FullName()] {
			return
		}
		seen[md.FullName()] = true
		fields := md.Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if options, ok := field.Options().(*descriptorpb.FieldOptions); ok && options.GetDebugRedact() {
				names = append(names, string(field.Name()), field.JSONName())
			}
			if field.Message() != nil {
				walk(field.Message())
			}
		}
	}
	walk(tool.Method.Descriptor.Input())
	walk(tool.Method.Descriptor.Output())
	return names
}
