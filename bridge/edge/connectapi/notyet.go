// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// notYet answers the RPCs of the contract that this version does not serve:
// unimplemented, with the canonical code in the details, and a sentence that
// tells it from a path that does not exist. The README lists them.
type notYet struct{}

func unserved(procedure string) *connect.Error {
	return errmap.ToConnect(errmap.New(errmap.MethodNotFound, errmap.Messagef(
		"Method not found: %s is part of the contract and not served by this version of the sidecar", procedure)), errmap.About{})
}

func (notYet) CallToolStream(context.Context, *connect.Request[outriggerv1.ToolCall], *connect.ServerStream[outriggerv1.ToolEvent]) error {
	return unserved("CallToolStream")
}

// RegisterTool is for operators; callers of the main listener have no identity
// that could make them one.
func (notYet) RegisterTool(context.Context, *connect.Request[outriggerv1.RegisterToolRequest]) (*connect.Response[outriggerv1.RegisterToolResponse], error) {
	return nil, errmap.ToConnect(errmap.New(errmap.MethodNotFound, errmap.Message(
		"Method not found: RegisterTool is served on the admin listener only (--admin)")), errmap.About{})
}

func (notYet) ListResources(context.Context, *connect.Request[outriggerv1.ListResourcesRequest]) (*connect.Response[outriggerv1.ListResourcesResponse], error) {
	return nil, unserved("ListResources")
}

func (notYet) ListResourceTemplates(context.Context, *connect.Request[outriggerv1.ListResourceTemplatesRequest]) (*connect.Response[outriggerv1.ListResourceTemplatesResponse], error) {
	return nil, unserved("ListResourceTemplates")
}

func (notYet) ReadResource(context.Context, *connect.Request[outriggerv1.ReadResourceRequest]) (*connect.Response[outriggerv1.ResourceOutcome], error) {
	return nil, unserved("ReadResource")
}

func (notYet) ListPrompts(context.Context, *connect.Request[outriggerv1.ListPromptsRequest]) (*connect.Response[outriggerv1.ListPromptsResponse], error) {
	return nil, unserved("ListPrompts")
}

func (notYet) GetPrompt(context.Context, *connect.Request[outriggerv1.GetPromptRequest]) (*connect.Response[outriggerv1.PromptOutcome], error) {
	return nil, unserved("GetPrompt")
}

func (notYet) Complete(context.Context, *connect.Request[outriggerv1.CompleteRequest]) (*connect.Response[outriggerv1.CompleteResponse], error) {
	return nil, unserved("Complete")
}

func (notYet) GetTask(context.Context, *connect.Request[outriggerv1.GetTaskRequest]) (*connect.Response[outriggerv1.Task], error) {
	return nil, unserved("GetTask")
}

func (notYet) UpdateTask(context.Context, *connect.Request[outriggerv1.UpdateTaskRequest]) (*connect.Response[outriggerv1.UpdateTaskResponse], error) {
	return nil, unserved("UpdateTask")
}

func (notYet) CancelTask(context.Context, *connect.Request[outriggerv1.CancelTaskRequest]) (*connect.Response[outriggerv1.CancelTaskResponse], error) {
	return nil, unserved("CancelTask")
}
