// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// CallTool runs one tool and waits for its outcome: a result, a question to the
// caller's client, or a task. The deadline of the RPC is the caller's timeout.
func (s *Service) CallTool(ctx context.Context, req *connect.Request[outriggerv1.ToolCall]) (*connect.Response[outriggerv1.ToolOutcome], error) {
	call, failed := s.call(ctx, rpcOf(req), req.Msg)
	if failed != nil {
		return nil, s.refusedCall(ctx, rpcOf(req), req.Msg, failed, errmap.About{ToolCall: true})
	}
	resp := s.handle(ctx, call)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	servedOf(ctx).attribute(resp)
	out := connect.NewResponse(resp.ToolOutcome())
	copyHeader(out.Header(), resp.Header)
	copyHeader(out.Trailer(), resp.Trailer)
	return out, nil
}

// handle runs a call. What was decoded in its arguments, the result says.
func (s *Service) handle(ctx context.Context, call *bridge.Request) *bridge.Response {
	resp := s.run(ctx, call)
	if resp.Err == nil {
		resp.Err = dialect.NoteRepairs(resp)
	}
	return resp
}

// call is the neutral form of a ToolCall. For whom it is made and what their
// client can do is the caller's own statement.
func (s *Service) call(ctx context.Context, r *rpc, msg *outriggerv1.ToolCall) (*bridge.Request, *errmap.Error) {
	arguments, failed := s.arguments(msg)
	if failed != nil {
		return nil, failed
	}
	meta, failed := s.meta(msg)
	if failed != nil {
		return nil, failed
	}
	if failed := s.checkCall(msg); failed != nil {
		return nil, failed
	}
	wanted, failed := content.ReadWanted(meta, "/meta")
	if failed != nil {
		return nil, failed
	}
	out := r.request(ctx)
	out.Op, out.Origin, out.Era = bridge.OpCall, s.bridge.Flights().NewOrigin(), era
	out.Tool, out.Version, out.Arguments, out.Timeout = msg.GetToolName(), msg.GetVersion(), arguments, timeLeft(ctx)
	out.Header, out.Context, out.Meta, out.Wanted = dialect.WithOwnContext(r.header, meta), msg.GetContext(), meta, wanted
	out.InputResponses, out.RequestState = msg.GetInputResponses(), msg.GetRequestState()
	return out, nil
}

// arguments returns the JSON text of a call's arguments in either form. Bytes
// are checked here, because they have not been through the envelope's parser.
func (s *Service) arguments(call *outriggerv1.ToolCall) (bridge.Payload, *errmap.Error) {
	raw, failed := freeForm(call.GetArgumentsJson(), call.GetArguments(), s.opts.Limits)
	if failed != nil {
		return bridge.Payload{}, failed.at("/arguments_json")
	}
	if raw == nil || jsontext.IsNull(raw) {
		return bridge.Payload{}, nil
	}
	arguments := s.bridge.RepairArguments(raw)
	if !jsontext.IsObject(arguments.Bytes) {
		return bridge.Payload{}, noObject("arguments_json")
	}
	return arguments, nil
}

// CallToolStream runs one tool and reports events while it runs; the outcome is the
// last event. It omits events that the caller did not request in the call's context.
// A caller that disconnects, or stops reading, cancels the run.
func (s *Service) CallToolStream(ctx context.Context, req *connect.Request[outriggerv1.ToolCall], stream *connect.ServerStream[outriggerv1.ToolEvent]) error {
	if err := protovalidate.Validate(req.Msg); err != nil {
		return s.refusedCall(ctx, rpcOf(req), req.Msg, ruleError(err), errmap.About{ToolCall: true})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call, failed := s.call(ctx, rpcOf(req), req.Msg)
	if failed != nil {
		return s.refusedCall(ctx, rpcOf(req), req.Msg, failed, errmap.About{ToolCall: true})
	}
	r := servedOf(ctx).reader
	defer r.waitFor() // for the end of the stream
	told := &eventForwarder{
		stream: stream, reader: r, cancel: cancel,
		filter: dialect.EventFilter{Progress: call.Context.GetProgressToken() != nil, Level: call.Context.GetLogLevel()},
	}
	call.Events = told.event
	resp := s.handle(ctx, call)
	if resp.Err != nil {
		return connectError(resp)
	}
	if told.began {
		copyHeader(stream.ResponseTrailer(), resp.Header) // headers have left
	} else {
		copyHeader(stream.ResponseHeader(), resp.Header)
	}
	copyHeader(stream.ResponseTrailer(), resp.Trailer)
	return write(r, stream, &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Outcome{Outcome: resp.ToolOutcome()}})
}

// eventForwarder passes on the events of one call.
type eventForwarder struct {
	stream *connect.ServerStream[outriggerv1.ToolEvent]
	reader *reader
	// cancel ends the call once it is no longer read.
	cancel context.CancelCauseFunc
	filter dialect.EventFilter
	// began: something was sent, and headers with it. broken: no more can be.
	began, broken bool
}

// event passes on what the caller wants.
func (t *eventForwarder) event(e *outriggerv1.ToolEvent) {
	if t.broken || !t.filter.Wants(e) {
		return
	}
	t.began = true
	if err := write(t.reader, t.stream, e); err != nil {
		t.broken = true
		t.cancel(err)
	}
}
