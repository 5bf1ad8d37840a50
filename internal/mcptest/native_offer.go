// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// NativeResource is a row of the table of resources.
type NativeResource struct {
	// Listed is how lists show it; nil for one that can be read and is not listed,
	// whose URI is then that of its contents.
	Listed   *outriggerv1.Resource
	Dialogue Dialogue
	Contents []*outriggerv1.ResourceContents
	Cache    *outriggerv1.CachePolicy
}

func (r *NativeResource) uri() string {
	if r.Listed != nil {
		return r.Listed.GetUri()
	}
	return r.Contents[0].GetUri()
}

// NativePrompt is a row of the table of prompts. Arguments that the declaration
// calls required have to be there.
type NativePrompt struct {
	Declared *outriggerv1.Prompt
	Dialogue Dialogue
	// Result takes the arguments.
	Result func(arguments map[string]string) *outriggerv1.PromptResult
}

// ListResources implements the contract.
func (n *Native) ListResources(_ context.Context, req *connect.Request[outriggerv1.ListResourcesRequest]) (*connect.Response[outriggerv1.ListResourcesResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	var listed []*outriggerv1.Resource
	for _, row := range n.Resources {
		if row.Listed != nil {
			listed = append(listed, row.Listed)
		}
	}
	rows, next, err := page(listed, req.Msg.Cursor, req.Msg.GetPageSize(), n.PageSize)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&outriggerv1.ListResourcesResponse{Resources: rows, NextCursor: next, Cache: n.ListCache}), nil
}

// ListResourceTemplates implements the contract.
func (n *Native) ListResourceTemplates(_ context.Context, req *connect.Request[outriggerv1.ListResourceTemplatesRequest]) (*connect.Response[outriggerv1.ListResourceTemplatesResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	rows, next, err := page(n.Templates, req.Msg.Cursor, req.Msg.GetPageSize(), n.PageSize)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&outriggerv1.ListResourceTemplatesResponse{ResourceTemplates: rows, NextCursor: next, Cache: n.ListCache}), nil
}

// ReadResource implements the contract.
func (n *Native) ReadResource(_ context.Context, req *connect.Request[outriggerv1.ReadResourceRequest]) (*connect.Response[outriggerv1.ResourceOutcome], error) {
	if err := n.check(req.Msg, true); err != nil {
		return nil, err
	}
	for _, row := range n.Resources {
		if row.uri() != req.Msg.GetUri() {
			continue
		}
		ask, err := row.Dialogue.next(req.Msg)
		switch {
		case err != nil:
			return nil, err
		case ask != nil:
			return connect.NewResponse(&outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_InputRequired{InputRequired: ask}}), nil
		}
		return connect.NewResponse(&outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{
			Result: &outriggerv1.ResourceResult{Contents: row.Contents, Cache: row.Cache},
		}}), nil
	}
	return nil, notFound("resource", req.Msg.GetUri())
}

// ListPrompts implements the contract.
func (n *Native) ListPrompts(_ context.Context, req *connect.Request[outriggerv1.ListPromptsRequest]) (*connect.Response[outriggerv1.ListPromptsResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	rows, next, err := page(n.Prompts, req.Msg.Cursor, req.Msg.GetPageSize(), n.PageSize)
	if err != nil {
		return nil, err
	}
	out := &outriggerv1.ListPromptsResponse{NextCursor: next, Cache: n.ListCache}
	for _, row := range rows {
		out.Prompts = append(out.Prompts, row.Declared)
	}
	return connect.NewResponse(out), nil
}

// GetPrompt implements the contract.
func (n *Native) GetPrompt(_ context.Context, req *connect.Request[outriggerv1.GetPromptRequest]) (*connect.Response[outriggerv1.PromptOutcome], error) {
	if err := n.check(req.Msg, true); err != nil {
		return nil, err
	}
	for _, row := range n.Prompts {
		if row.Declared.GetName() != req.Msg.GetName() {
			continue
		}
		for _, argument := range row.Declared.GetArguments() {
			if _, ok := req.Msg.GetArguments()[argument.GetName()]; argument.GetRequired() && !ok {
				return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the argument %q is required", argument.GetName()))
			}
		}
		ask, err := row.Dialogue.next(req.Msg)
		switch {
		case err != nil:
			return nil, err
		case ask != nil:
			return connect.NewResponse(&outriggerv1.PromptOutcome{Outcome: &outriggerv1.PromptOutcome_InputRequired{InputRequired: ask}}), nil
		}
		return connect.NewResponse(&outriggerv1.PromptOutcome{Outcome: &outriggerv1.PromptOutcome_Result{
			Result: row.Result(req.Msg.GetArguments()),
		}}), nil
	}
	return nil, notFound("prompt", req.Msg.GetName())
}

// Complete implements the contract.
func (n *Native) Complete(_ context.Context, req *connect.Request[outriggerv1.CompleteRequest]) (*connect.Response[outriggerv1.CompleteResponse], error) {
	if err := n.check(req.Msg, true); err != nil {
		return nil, err
	}
	key := "prompt " + req.Msg.GetPrompt()
	if uri := req.Msg.GetResource(); uri != "" {
		key = "resource " + uri
	}
	out, ok := n.Completions[key+" "+req.Msg.GetArgument().GetName()]
	if !ok {
		return nil, notFound("reference", key)
	}
	return connect.NewResponse(out), nil
}

// task returns the present state of a task.
func (n *Native) task(id string) (*outriggerv1.Task, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	states := n.Tasks[id]
	if len(states) == 0 {
		return nil, notFound("task", id)
	}
	return states[n.at[id]], nil
}

// Advance puts a task into its next state, if there is one, and returns it.
func (n *Native) Advance(id string) *outriggerv1.Task {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[id] = min(n.at[id]+1, len(n.Tasks[id])-1)
	return n.Tasks[id][n.at[id]]
}

// GetTask implements the contract.
func (n *Native) GetTask(_ context.Context, req *connect.Request[outriggerv1.GetTaskRequest]) (*connect.Response[outriggerv1.Task], error) {
	if err := n.check(req.Msg, true); err != nil {
		return nil, err
	}
	now, err := n.task(req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(proto.CloneOf(now)), nil
}

// UpdateTask implements the contract: a task that waits goes on once all of its
// questions are answered.
func (n *Native) UpdateTask(_ context.Context, req *connect.Request[outriggerv1.UpdateTaskRequest]) (*connect.Response[outriggerv1.UpdateTaskResponse], error) {
	if err := n.check(req.Msg, true); err != nil {
		return nil, err
	}
	now, err := n.task(req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	if asked := now.GetInputRequests(); len(asked) > 0 && !open(asked, req.Msg.GetInputResponses()) {
		n.Advance(req.Msg.GetTaskId())
	}
	return connect.NewResponse(&outriggerv1.UpdateTaskResponse{}), nil
}

// CancelTask implements the contract: a task is cancelled where its next state
// says so.
func (n *Native) CancelTask(_ context.Context, req *connect.Request[outriggerv1.CancelTaskRequest]) (*connect.Response[outriggerv1.CancelTaskResponse], error) {
	if err := n.check(req.Msg, true); err != nil {
		return nil, err
	}
	if _, err := n.task(req.Msg.GetTaskId()); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	states, at := n.Tasks[req.Msg.GetTaskId()], n.at[req.Msg.GetTaskId()]
	if at+1 < len(states) && states[at+1].GetStatus() == outriggerv1.TaskStatus_TASK_STATUS_CANCELLED {
		n.at[req.Msg.GetTaskId()]++
	}
	return connect.NewResponse(&outriggerv1.CancelTaskResponse{}), nil
}
