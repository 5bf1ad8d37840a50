// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/conformance/fixture"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAFrontDoor has a sidecar in front of two native backends, one of them a sidecar itself: tasks, progress, questions to the user and
// what they offer besides tools pass through, and one that goes takes only its own with it.
func TestAFrontDoor(t *testing.T) {
	t.Parallel()
	inner := serve(t, "--backend", startFixture(t))
	near, err := fixture.Start(t.Context(), fixture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Limit())
		defer cancel()
		_ = near.Close(ctx)
	}
	t.Cleanup(closed)
	front := serve(t, "--config", manyFile(t, []string{
		fmt.Sprintf("name: far, url: %q, prefix: far", inner.URL("")), fmt.Sprintf("name: near, url: %q, prefix: near", near.URL()),
	}))
	client := outriggerv1connect.NewToolServiceClient(http.DefaultClient, front.URL(""))
	able := &outriggerv1.RequestContext{
		Capabilities:  &outriggerv1.ClientCapabilities{Tasks: true, Elicitation: &outriggerv1.ElicitationCapability{Form: true}},
		ProgressToken: &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: 7}},
	}
	call := func(t *testing.T, tool, arguments string, change func(*outriggerv1.ToolCall)) *outriggerv1.ToolOutcome {
		t.Helper()
		in := &outriggerv1.ToolCall{ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}, Context: able}
		if change != nil {
			change(in)
		}
		out, err := client.CallTool(t.Context(), connect.NewRequest(in))
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return out.Msg
	}
	status := func(t *testing.T, id string, wanted outriggerv1.TaskStatus) {
		t.Helper()
		testkit.Until(t, "the task is "+wanted.String(), func() bool {
			got, err := client.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: id, Context: able}))
			if err != nil {
				t.Fatal(err)
			}
			return got.Msg.GetStatus() == wanted
		})
	}
	testkit.Until(t, "the tools of both", func() bool {
		list, err := client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
		if err != nil {
			return false
		}
		found := map[string]bool{}
		for _, tool := range list.Msg.GetTools() {
			prefix, _, _ := strings.Cut(tool.GetName(), ".")
			found[prefix] = true
		}
		return found["far"] && found["near"] || list.Msg.NextCursor != nil
	})
	for _, prefix := range []string{"far", "near"} {
		t.Run(prefix, func(t *testing.T) {
			done := call(t, prefix+"_slow_compute", `{"seconds":0.1}`, nil).GetTask()
			if done == nil {
				t.Fatal("the call did not become a task")
			}
			status(t, done.GetTaskId(), outriggerv1.TaskStatus_TASK_STATUS_COMPLETED)
			long := call(t, prefix+"_slow_compute", `{"seconds":300}`, nil).GetTask()
			if _, err := client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: long.GetTaskId(), Context: able})); err != nil {
				t.Fatal(err)
			}
			status(t, long.GetTaskId(), outriggerv1.TaskStatus_TASK_STATUS_CANCELLED)

			asked := call(t, prefix+"_test_input_required_result_elicitation", `{}`, nil).GetInputRequired()
			if len(asked.GetInputRequests()) != 1 {
				t.Fatalf("questions: %v", asked)
			}
			answers := map[string]*outriggerv1.InputResponse{}
			for name := range asked.GetInputRequests() {
				content, _ := structpb.NewStruct(map[string]any{"name": "Ann"})
				answers[name] = &outriggerv1.InputResponse{Response: &outriggerv1.InputResponse_Elicitation{Elicitation: &outriggerv1.ElicitationResult{
					Action: outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT, ContentForm: &outriggerv1.ElicitationResult_Content{Content: content},
				}}}
			}
			greeted := call(t, prefix+"_test_input_required_result_elicitation", `{}`, func(in *outriggerv1.ToolCall) {
				in.InputResponses, in.RequestState = answers, asked.GetRequestState()
			}).GetResult()
			if !strings.Contains(fmt.Sprint(greeted), "Ann") {
				t.Errorf("after the answer: %v", greeted)
			}

			stream, err := client.CallToolStream(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
				ToolName: prefix + "_test_tool_with_progress", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{}`)}, Context: able,
			}))
			if err != nil {
				t.Fatal(err)
			}
			progress := 0
			for stream.Receive() {
				if stream.Msg().GetProgress() != nil {
					progress++
				}
			}
			if err := stream.Err(); err != nil || progress == 0 {
				t.Errorf("%d reports of progress, %v", progress, err)
			}
			_ = stream.Close()
		})
	}
	prompts := func() (names []string) {
		in := &outriggerv1.ListPromptsRequest{}
		for {
			page, err := client.ListPrompts(t.Context(), connect.NewRequest(in))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range page.Msg.GetPrompts() {
				names = append(names, p.GetName())
			}
			if page.Msg.NextCursor == nil {
				return names
			}
			in.Cursor = page.Msg.NextCursor //nolint:protogetter // an empty cursor is one
		}
	}
	both := prompts()
	if len(both) == 0 || len(both)%2 != 0 || both[0] != both[len(both)/2] {
		t.Errorf("prompts of both, in a row: %v", both)
	}
	closed()
	testkit.Until(t, "the prompts of the one that is there", func() bool { return len(prompts()) == len(both)/2 })
	read, err := client.ReadResource(t.Context(), connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: "test://static-text", Context: able}))
	if err != nil || read.Msg.GetResult() == nil {
		t.Errorf("a resource of the one that is there: %v, %v", read, err)
	}
	_, err = client.CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{ToolName: "near_test_simple_text", Context: able}))
	if outcome := call(t, "far_test_simple_text", `{}`, nil); outcome.GetResult() == nil || connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("tools of the one that is there: %v; of the other: %v", outcome, err)
	}
}
