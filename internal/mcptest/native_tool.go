// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// NativeTool is a row of the table of tools: a declaration and what a run does,
// step by step. Steps that are not set are left out.
type NativeTool struct {
	Declared *outriggerv1.Tool
	// Dialogue is asked before anything else.
	Dialogue Dialogue
	// Events go before the outcome, Late behind it, which the contract forbids.
	Events, Late []*outriggerv1.ToolEvent
	// Run replaces Outcome. What it sends goes behind Events.
	Run func(ctx context.Context, call *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error)
	// Outcome is how it ends, unless Err is set, which is an error of the RPC.
	Outcome *outriggerv1.ToolOutcome
	Err     error
}

// ListTools implements the contract.
func (n *Native) ListTools(_ context.Context, req *connect.Request[outriggerv1.ListToolsRequest]) (*connect.Response[outriggerv1.ListToolsResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	rows, next, err := page(n.currentTools(), req.Msg.Cursor, req.Msg.GetPageSize(), 0)
	if err != nil {
		return nil, err
	}
	out := &outriggerv1.ListToolsResponse{NextCursor: next}
	for _, row := range rows {
		out.Tools = append(out.Tools, row.Declared)
	}
	return connect.NewResponse(out), nil
}

// CallTool implements the contract.
func (n *Native) CallTool(ctx context.Context, req *connect.Request[outriggerv1.ToolCall]) (*connect.Response[outriggerv1.ToolOutcome], error) {
	row, err := n.called(req.Msg)
	if err != nil {
		return nil, err
	}
	out, err := row.run(ctx, req.Msg, func(*outriggerv1.ToolEvent) error { return nil })
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

// CallToolStream implements the contract.
func (n *Native) CallToolStream(ctx context.Context, req *connect.Request[outriggerv1.ToolCall], stream *connect.ServerStream[outriggerv1.ToolEvent]) error {
	if n.NoStream {
		return n.UnimplementedToolServiceHandler.CallToolStream(ctx, req, stream)
	}
	row, err := n.called(req.Msg)
	if err != nil {
		return err
	}
	out, err := row.run(ctx, req.Msg, stream.Send)
	if err != nil {
		return err
	}
	if err := stream.Send(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Outcome{Outcome: out}}); err != nil {
		return err
	}
	for _, late := range row.Late {
		if err := stream.Send(late); err != nil {
			return err
		}
	}
	return nil
}

func (n *Native) called(call *outriggerv1.ToolCall) (*NativeTool, error) {
	if err := n.check(call, true); err != nil {
		return nil, err
	}
	for _, row := range n.currentTools() {
		if row.Declared.GetName() == call.GetToolName() {
			return &row, nil
		}
	}
	return nil, notFound("tool", call.GetToolName())
}

func (r *NativeTool) run(ctx context.Context, call *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
	ask, err := r.Dialogue.next(call)
	switch {
	case err != nil:
		return nil, err
	case ask != nil:
		return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: ask}}, nil
	}
	for _, event := range r.Events {
		if err := send(event); err != nil {
			return nil, err
		}
	}
	if r.Run != nil {
		return r.Run(ctx, call, send)
	}
	return r.Outcome, r.Err
}
