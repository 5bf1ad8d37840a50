// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

// ListResources lists the resources, page by page.
func (s *Service) ListResources(ctx context.Context, req *connect.Request[outriggerv1.ListResourcesRequest]) (*connect.Response[outriggerv1.ListResourcesResponse], error) {
	return ask[outriggerv1.ListResourcesResponse](ctx, s, bridge.OpListResources, req, req.Msg)
}

// ListResourceTemplates lists the resource templates, page by page.
func (s *Service) ListResourceTemplates(ctx context.Context, req *connect.Request[outriggerv1.ListResourceTemplatesRequest]) (*connect.Response[outriggerv1.ListResourceTemplatesResponse], error) {
	return ask[outriggerv1.ListResourceTemplatesResponse](ctx, s, bridge.OpListTemplates, req, req.Msg)
}

// ReadResource reads a resource.
func (s *Service) ReadResource(ctx context.Context, req *connect.Request[outriggerv1.ReadResourceRequest]) (*connect.Response[outriggerv1.ResourceOutcome], error) {
	return ask[outriggerv1.ResourceOutcome](ctx, s, bridge.OpReadResource, req, req.Msg)
}

// ListSkills lists skills, page by page.
func (s *Service) ListSkills(ctx context.Context, req *connect.Request[outriggerv1.ListSkillsRequest]) (*connect.Response[outriggerv1.ListSkillsResponse], error) {
	return ask[outriggerv1.ListSkillsResponse](ctx, s, bridge.OpListSkills, req, req.Msg)
}

// GetSkill returns one skill.
func (s *Service) GetSkill(ctx context.Context, req *connect.Request[outriggerv1.GetSkillRequest]) (*connect.Response[outriggerv1.GetSkillResponse], error) {
	return ask[outriggerv1.GetSkillResponse](ctx, s, bridge.OpGetSkill, req, req.Msg)
}

// ReadDirectory lists what is in a directory, page by page.
func (s *Service) ReadDirectory(ctx context.Context, req *connect.Request[outriggerv1.ReadDirectoryRequest]) (*connect.Response[outriggerv1.ReadDirectoryResponse], error) {
	return ask[outriggerv1.ReadDirectoryResponse](ctx, s, bridge.OpReadDirectory, req, req.Msg)
}

// ListPrompts lists prompts, page by page.
func (s *Service) ListPrompts(ctx context.Context, req *connect.Request[outriggerv1.ListPromptsRequest]) (*connect.Response[outriggerv1.ListPromptsResponse], error) {
	return ask[outriggerv1.ListPromptsResponse](ctx, s, bridge.OpListPrompts, req, req.Msg)
}

// GetPrompt fills in a prompt.
func (s *Service) GetPrompt(ctx context.Context, req *connect.Request[outriggerv1.GetPromptRequest]) (*connect.Response[outriggerv1.PromptOutcome], error) {
	return ask[outriggerv1.PromptOutcome](ctx, s, bridge.OpGetPrompt, req, req.Msg)
}

// Complete suggests values while a user fills in an argument.
func (s *Service) Complete(ctx context.Context, req *connect.Request[outriggerv1.CompleteRequest]) (*connect.Response[outriggerv1.CompleteResponse], error) {
	return ask[outriggerv1.CompleteResponse](ctx, s, bridge.OpComplete, req, req.Msg)
}

// GetTask returns the state of a task.
func (s *Service) GetTask(ctx context.Context, req *connect.Request[outriggerv1.GetTaskRequest]) (*connect.Response[outriggerv1.Task], error) {
	req.Msg.Context = withTasks(req.Msg.GetContext())
	return ask[outriggerv1.Task](ctx, s, bridge.OpGetTask, req, req.Msg)
}

// UpdateTask answers questions of a task.
func (s *Service) UpdateTask(ctx context.Context, req *connect.Request[outriggerv1.UpdateTaskRequest]) (*connect.Response[outriggerv1.UpdateTaskResponse], error) {
	req.Msg.Context = withTasks(req.Msg.GetContext())
	return ask[outriggerv1.UpdateTaskResponse](ctx, s, bridge.OpUpdateTask, req, req.Msg)
}

// CancelTask requests the cancellation of a task.
func (s *Service) CancelTask(ctx context.Context, req *connect.Request[outriggerv1.CancelTaskRequest]) (*connect.Response[outriggerv1.CancelTaskResponse], error) {
	req.Msg.Context = withTasks(req.Msg.GetContext())
	return ask[outriggerv1.CancelTaskResponse](ctx, s, bridge.OpCancelTask, req, req.Msg)
}

// withTasks is the context of a request about tasks. That the caller's client can
// work with them, the request says by itself.
func withTasks(c *outriggerv1.RequestContext) *outriggerv1.RequestContext {
	if c == nil {
		c = &outriggerv1.RequestContext{}
	}
	if c.GetCapabilities() == nil {
		c.Capabilities = &outriggerv1.ClientCapabilities{}
	}
	c.Capabilities.Tasks = true
	return c
}

// Parts that messages of the contract have in common.
type (
	contextHolder interface {
		proto.Message
		GetContext() *outriggerv1.RequestContext
	}
	repetition interface {
		GetInputResponses() map[string]*outriggerv1.InputResponse
		GetRequestState() []byte
	}
)

// ask puts a request whose question and answer are messages of the contract.
func ask[Out any](ctx context.Context, s *Service, op bridge.Op, req connect.AnyRequest, msg contextHolder) (*connect.Response[Out], error) {
	r := s.request(ctx, op, req)
	r.Message, r.Context, r.Timeout = msg, msg.GetContext(), timeLeft(ctx)
	if again, ok := msg.(repetition); ok {
		r.InputResponses, r.RequestState = again.GetInputResponses(), again.GetRequestState()
	}
	failed := s.checkPayloads(msg)
	if holder, ok := msg.(metaHolder); ok && failed == nil {
		r.Meta, failed = s.meta(holder)
		r.Header = dialect.WithOwnContext(r.Header, r.Meta)
	}
	if failed != nil {
		return nil, s.refusedCall(ctx, rpcOf(req), msg, failed, errmap.About{})
	}
	resp := s.run(ctx, r)
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	answer, ok := any(resp.Message).(*Out)
	if !ok {
		wrong := errors.New("the pipeline answered with another message")
		return nil, errmap.ToConnect(errmap.Wrap(errmap.InternalError, wrong), errmap.About{})
	}
	out := connect.NewResponse(answer)
	copyHeader(out.Header(), resp.Header)
	copyHeader(out.Trailer(), resp.Trailer)
	return out, nil
}
