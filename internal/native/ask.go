// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// Describe returns the backend's description of itself and its features.
func (c *Client) Describe(ctx context.Context) (*outriggerv1.ServerDescription, error) {
	out, _, err := ask[outriggerv1.ServerDescription](ctx, c, outriggerv1connect.ToolServiceDescribeProcedure, &outriggerv1.DescribeRequest{}, nil)
	return out, err
}

// ListResources returns one page of resources. Like the other methods with a header, it
// sends the header as metadata of the RPC and returns the metadata of the response. It
// also returns the metadata with an *InvalidAnswerError. Other errors hold their own
// metadata.
func (c *Client) ListResources(ctx context.Context, in *outriggerv1.ListResourcesRequest, header http.Header) (*outriggerv1.ListResourcesResponse, Metadata, error) {
	return ask[outriggerv1.ListResourcesResponse](ctx, c, outriggerv1connect.ToolServiceListResourcesProcedure, in, header)
}

// ListResourceTemplates returns one page of resource templates.
func (c *Client) ListResourceTemplates(ctx context.Context, in *outriggerv1.ListResourceTemplatesRequest, header http.Header) (*outriggerv1.ListResourceTemplatesResponse, Metadata, error) {
	return ask[outriggerv1.ListResourceTemplatesResponse](ctx, c, outriggerv1connect.ToolServiceListResourceTemplatesProcedure, in, header)
}

// ReadResource returns the contents of a resource.
func (c *Client) ReadResource(ctx context.Context, in *outriggerv1.ReadResourceRequest, header http.Header) (*outriggerv1.ResourceOutcome, Metadata, error) {
	return ask[outriggerv1.ResourceOutcome](ctx, c, outriggerv1connect.ToolServiceReadResourceProcedure, in, header)
}

// ListSkills returns one page of skills.
func (c *Client) ListSkills(ctx context.Context, in *outriggerv1.ListSkillsRequest, header http.Header) (*outriggerv1.ListSkillsResponse, Metadata, error) {
	return ask[outriggerv1.ListSkillsResponse](ctx, c, outriggerv1connect.ToolServiceListSkillsProcedure, in, header)
}

// GetSkill returns one skill.
func (c *Client) GetSkill(ctx context.Context, in *outriggerv1.GetSkillRequest, header http.Header) (*outriggerv1.GetSkillResponse, Metadata, error) {
	return ask[outriggerv1.GetSkillResponse](ctx, c, outriggerv1connect.ToolServiceGetSkillProcedure, in, header)
}

// ReadDirectory returns one page of what is in a directory.
func (c *Client) ReadDirectory(ctx context.Context, in *outriggerv1.ReadDirectoryRequest, header http.Header) (*outriggerv1.ReadDirectoryResponse, Metadata, error) {
	return ask[outriggerv1.ReadDirectoryResponse](ctx, c, outriggerv1connect.ToolServiceReadDirectoryProcedure, in, header)
}

// ListPrompts returns one page of prompts.
func (c *Client) ListPrompts(ctx context.Context, in *outriggerv1.ListPromptsRequest, header http.Header) (*outriggerv1.ListPromptsResponse, Metadata, error) {
	return ask[outriggerv1.ListPromptsResponse](ctx, c, outriggerv1connect.ToolServiceListPromptsProcedure, in, header)
}

// GetPrompt returns a prompt with its arguments filled in.
func (c *Client) GetPrompt(ctx context.Context, in *outriggerv1.GetPromptRequest, header http.Header) (*outriggerv1.PromptOutcome, Metadata, error) {
	return ask[outriggerv1.PromptOutcome](ctx, c, outriggerv1connect.ToolServiceGetPromptProcedure, in, header)
}

// Complete returns completions for an argument that a user fills in.
func (c *Client) Complete(ctx context.Context, in *outriggerv1.CompleteRequest, header http.Header) (*outriggerv1.CompleteResponse, Metadata, error) {
	return ask[outriggerv1.CompleteResponse](ctx, c, outriggerv1connect.ToolServiceCompleteProcedure, in, header)
}

// GetTask returns the state of a task.
func (c *Client) GetTask(ctx context.Context, in *outriggerv1.GetTaskRequest, header http.Header) (*outriggerv1.Task, Metadata, error) {
	return ask[outriggerv1.Task](ctx, c, outriggerv1connect.ToolServiceGetTaskProcedure, in, header)
}

// UpdateTask answers questions of a task.
func (c *Client) UpdateTask(ctx context.Context, in *outriggerv1.UpdateTaskRequest, header http.Header) (*outriggerv1.UpdateTaskResponse, Metadata, error) {
	return ask[outriggerv1.UpdateTaskResponse](ctx, c, outriggerv1connect.ToolServiceUpdateTaskProcedure, in, header)
}

// CancelTask asks the backend to end a task early.
func (c *Client) CancelTask(ctx context.Context, in *outriggerv1.CancelTaskRequest, header http.Header) (*outriggerv1.CancelTaskResponse, Metadata, error) {
	return ask[outriggerv1.CancelTaskResponse](ctx, c, outriggerv1connect.ToolServiceCancelTaskProcedure, in, header)
}

// Ask makes the unary RPC that belongs to the type of in, for callers that treat all of
// them alike: a ReadResourceRequest returns a ResourceOutcome, a ToolCall a ToolOutcome,
// and so on. The response has the type that the typed method returns. A type that
// belongs to no RPC here is a *backend.Error of KindRejected.
func (c *Client) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, Metadata, error) {
	procedure, out := rpcOf(in)
	if out == nil {
		return nil, Metadata{}, &backend.Error{
			Kind: backend.KindRejected, Code: connect.CodeInvalidArgument,
			Message: fmt.Sprintf("no unary RPC takes a message of type %T", in),
		}
	}
	_, md, err := c.exchange(ctx, procedure, in, out, header)
	if err != nil {
		return nil, md, err
	}
	return out, md, nil
}

// rpcOf says which RPC takes a message of the type of in, and makes an empty
// answer of it.
func rpcOf(in proto.Message) (procedure string, out proto.Message) {
	switch in.(type) {
	case *outriggerv1.DescribeRequest:
		return outriggerv1connect.ToolServiceDescribeProcedure, new(outriggerv1.ServerDescription)
	case *outriggerv1.ToolCall:
		return outriggerv1connect.ToolServiceCallToolProcedure, new(outriggerv1.ToolOutcome)
	case *outriggerv1.ListToolsRequest:
		return outriggerv1connect.ToolServiceListToolsProcedure, new(outriggerv1.ListToolsResponse)
	case *outriggerv1.ListResourcesRequest:
		return outriggerv1connect.ToolServiceListResourcesProcedure, new(outriggerv1.ListResourcesResponse)
	case *outriggerv1.ListResourceTemplatesRequest:
		return outriggerv1connect.ToolServiceListResourceTemplatesProcedure, new(outriggerv1.ListResourceTemplatesResponse)
	case *outriggerv1.ReadResourceRequest:
		return outriggerv1connect.ToolServiceReadResourceProcedure, new(outriggerv1.ResourceOutcome)
	case *outriggerv1.ListSkillsRequest:
		return outriggerv1connect.ToolServiceListSkillsProcedure, new(outriggerv1.ListSkillsResponse)
	case *outriggerv1.GetSkillRequest:
		return outriggerv1connect.ToolServiceGetSkillProcedure, new(outriggerv1.GetSkillResponse)
	case *outriggerv1.ReadDirectoryRequest:
		return outriggerv1connect.ToolServiceReadDirectoryProcedure, new(outriggerv1.ReadDirectoryResponse)
	case *outriggerv1.ListPromptsRequest:
		return outriggerv1connect.ToolServiceListPromptsProcedure, new(outriggerv1.ListPromptsResponse)
	case *outriggerv1.GetPromptRequest:
		return outriggerv1connect.ToolServiceGetPromptProcedure, new(outriggerv1.PromptOutcome)
	case *outriggerv1.CompleteRequest:
		return outriggerv1connect.ToolServiceCompleteProcedure, new(outriggerv1.CompleteResponse)
	case *outriggerv1.GetTaskRequest:
		return outriggerv1connect.ToolServiceGetTaskProcedure, new(outriggerv1.Task)
	case *outriggerv1.UpdateTaskRequest:
		return outriggerv1connect.ToolServiceUpdateTaskProcedure, new(outriggerv1.UpdateTaskResponse)
	case *outriggerv1.CancelTaskRequest:
		return outriggerv1connect.ToolServiceCancelTaskProcedure, new(outriggerv1.CancelTaskResponse)
	default:
		return "", nil
	}
}
