// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// service is a backend that serves ToolService. What has no function is
// unimplemented.
type service struct {
	outriggerv1connect.UnimplementedToolServiceHandler

	unary     func(ctx context.Context, in proto.Message, header http.Header) (proto.Message, error)
	stream    func(context.Context, *connect.Request[outriggerv1.ToolCall], *connect.ServerStream[outriggerv1.ToolEvent]) error
	subscribe func(context.Context, *connect.Request[outriggerv1.SubscribeRequest], *connect.ServerStream[outriggerv1.Notification]) error
}

// nativeReply answers with s.unary, the x- headers of the request as headers, and a
// trailer.
func nativeReply[In, Out any](ctx context.Context, s *service, req *connect.Request[In]) (*connect.Response[Out], error) {
	if s.unary == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("not here"))
	}
	out, err := s.unary(ctx, req.Any().(proto.Message), req.Header())
	if err != nil {
		return nil, err
	}
	resp := connect.NewResponse(any(out).(*Out))
	for name, values := range req.Header() {
		if strings.HasPrefix(name, "X-") && name != "X-User-Agent" {
			resp.Header()[name] = values
		}
	}
	resp.Trailer().Set("X-Tail", "end")
	return resp, nil
}

func (s *service) CallTool(ctx context.Context, req *connect.Request[outriggerv1.ToolCall]) (*connect.Response[outriggerv1.ToolOutcome], error) {
	return nativeReply[outriggerv1.ToolCall, outriggerv1.ToolOutcome](ctx, s, req)
}

func (s *service) CallToolStream(ctx context.Context, req *connect.Request[outriggerv1.ToolCall], out *connect.ServerStream[outriggerv1.ToolEvent]) error {
	if s.stream == nil {
		return s.UnimplementedToolServiceHandler.CallToolStream(ctx, req, out)
	}
	return s.stream(ctx, req, out)
}

func (s *service) Subscribe(ctx context.Context, req *connect.Request[outriggerv1.SubscribeRequest], out *connect.ServerStream[outriggerv1.Notification]) error {
	if s.subscribe == nil {
		return s.UnimplementedToolServiceHandler.Subscribe(ctx, req, out)
	}
	return s.subscribe(ctx, req, out)
}

func (s *service) ListTools(ctx context.Context, req *connect.Request[outriggerv1.ListToolsRequest]) (*connect.Response[outriggerv1.ListToolsResponse], error) {
	return nativeReply[outriggerv1.ListToolsRequest, outriggerv1.ListToolsResponse](ctx, s, req)
}

func (s *service) ListResources(ctx context.Context, req *connect.Request[outriggerv1.ListResourcesRequest]) (*connect.Response[outriggerv1.ListResourcesResponse], error) {
	return nativeReply[outriggerv1.ListResourcesRequest, outriggerv1.ListResourcesResponse](ctx, s, req)
}

func (s *service) ListResourceTemplates(ctx context.Context, req *connect.Request[outriggerv1.ListResourceTemplatesRequest]) (*connect.Response[outriggerv1.ListResourceTemplatesResponse], error) {
	return nativeReply[outriggerv1.ListResourceTemplatesRequest, outriggerv1.ListResourceTemplatesResponse](ctx, s, req)
}

func (s *service) ReadResource(ctx context.Context, req *connect.Request[outriggerv1.ReadResourceRequest]) (*connect.Response[outriggerv1.ResourceOutcome], error) {
	return nativeReply[outriggerv1.ReadResourceRequest, outriggerv1.ResourceOutcome](ctx, s, req)
}

func (s *service) ListSkills(ctx context.Context, req *connect.Request[outriggerv1.ListSkillsRequest]) (*connect.Response[outriggerv1.ListSkillsResponse], error) {
	return nativeReply[outriggerv1.ListSkillsRequest, outriggerv1.ListSkillsResponse](ctx, s, req)
}

func (s *service) GetSkill(ctx context.Context, req *connect.Request[outriggerv1.GetSkillRequest]) (*connect.Response[outriggerv1.GetSkillResponse], error) {
	return nativeReply[outriggerv1.GetSkillRequest, outriggerv1.GetSkillResponse](ctx, s, req)
}

func (s *service) ReadDirectory(ctx context.Context, req *connect.Request[outriggerv1.ReadDirectoryRequest]) (*connect.Response[outriggerv1.ReadDirectoryResponse], error) {
	return nativeReply[outriggerv1.ReadDirectoryRequest, outriggerv1.ReadDirectoryResponse](ctx, s, req)
}

func (s *service) ListPrompts(ctx context.Context, req *connect.Request[outriggerv1.ListPromptsRequest]) (*connect.Response[outriggerv1.ListPromptsResponse], error) {
	return nativeReply[outriggerv1.ListPromptsRequest, outriggerv1.ListPromptsResponse](ctx, s, req)
}

func (s *service) GetPrompt(ctx context.Context, req *connect.Request[outriggerv1.GetPromptRequest]) (*connect.Response[outriggerv1.PromptOutcome], error) {
	return nativeReply[outriggerv1.GetPromptRequest, outriggerv1.PromptOutcome](ctx, s, req)
}

func (s *service) Complete(ctx context.Context, req *connect.Request[outriggerv1.CompleteRequest]) (*connect.Response[outriggerv1.CompleteResponse], error) {
	return nativeReply[outriggerv1.CompleteRequest, outriggerv1.CompleteResponse](ctx, s, req)
}

func (s *service) GetTask(ctx context.Context, req *connect.Request[outriggerv1.GetTaskRequest]) (*connect.Response[outriggerv1.Task], error) {
	return nativeReply[outriggerv1.GetTaskRequest, outriggerv1.Task](ctx, s, req)
}

func (s *service) UpdateTask(ctx context.Context, req *connect.Request[outriggerv1.UpdateTaskRequest]) (*connect.Response[outriggerv1.UpdateTaskResponse], error) {
	return nativeReply[outriggerv1.UpdateTaskRequest, outriggerv1.UpdateTaskResponse](ctx, s, req)
}

func (s *service) CancelTask(ctx context.Context, req *connect.Request[outriggerv1.CancelTaskRequest]) (*connect.Response[outriggerv1.CancelTaskResponse], error) {
	return nativeReply[outriggerv1.CancelTaskRequest, outriggerv1.CancelTaskResponse](ctx, s, req)
}

func (s *service) Describe(ctx context.Context, req *connect.Request[outriggerv1.DescribeRequest]) (*connect.Response[outriggerv1.ServerDescription], error) {
	return nativeReply[outriggerv1.DescribeRequest, outriggerv1.ServerDescription](ctx, s, req)
}

// serve runs the service on loopback and returns its address.
func serve(tb testing.TB, s *service) string {
	tb.Helper()
	mux := http.NewServeMux()
	mux.Handle(outriggerv1connect.NewToolServiceHandler(s))
	return serveHandler(tb, mux)
}

func serveHandler(tb testing.TB, handler http.Handler) string {
	tb.Helper()
	return strings.TrimPrefix(servePeer(tb, handler, clearProtocols(true, true)).url, "http://")
}

// dial makes a client of the service at addr.
func dial(tb testing.TB, target string, o nativeLimits) *NativeClient {
	tb.Helper()
	t, err := ParseTarget(target)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := New(t, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.Close() })
	n := NewNative(b)
	n.limits = nativeLimits{
		tools: cmp.Or(o.tools, n.limits.tools), pages: cmp.Or(o.pages, n.limits.pages), listBytes: cmp.Or(o.listBytes, n.limits.listBytes),
		streamRetry: cmp.Or(o.streamRetry, n.limits.streamRetry), endGrace: cmp.Or(o.endGrace, n.limits.endGrace),
	}
	return n
}

// success is an outcome that keeps all rules.
func success(explanation string) *outriggerv1.ToolOutcome {
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{Status: "success", Explanation: explanation}}}
}

// tool is a tool that keeps all rules.
func tool(name string) *outriggerv1.Tool {
	return &outriggerv1.Tool{Name: name, InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)}}
}

// task is a task that keeps all rules.
func task(id string) *outriggerv1.Task {
	at := &timestamppb.Timestamp{Seconds: 1_700_000_000}
	return &outriggerv1.Task{TaskId: id, Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING, CreatedAt: at, LastUpdatedAt: at}
}

// refusal asserts that err is an *InvalidAnswerError, for all who look at it.
func refusal(tb testing.TB, err error) *InvalidAnswerError {
	tb.Helper()
	e := new(InvalidAnswerError)
	if !errors.As(err, &e) {
		tb.Fatalf("got %v (%T), want an *InvalidAnswerError", err, err)
	}
	if b := failure(tb, err); b.Kind != KindGarbage || !b.Sent {
		tb.Errorf("to others it is %v", b)
	}
	return e
}
