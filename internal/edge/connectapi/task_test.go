// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

const (
	working   = outriggerv1.TaskStatus_TASK_STATUS_WORKING
	asking    = outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED
	completed = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
	cancelled = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED
)

// begin makes a call that becomes a task.
func begin(t *testing.T, client apiClient, tool, arguments string) *outriggerv1.Task {
	t.Helper()
	made := run(t, client, with(toolCall(tool, arguments), canAll())).GetTask()
	if made == nil {
		t.Fatalf("%s became no task", tool)
	}
	return made
}

// look is how far a task is. The caller says nothing about itself: to ask is
// enough.
func look(t *testing.T, client apiClient, id string) *outriggerv1.Task {
	t.Helper()
	resp, err := client.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: id}))
	if err != nil {
		t.Fatalf("task %s: %v", id, err)
	}
	if resp.Msg.GetTaskId() != id {
		t.Errorf("task %s answers as %s", id, resp.Msg.GetTaskId())
	}
	return resp.Msg
}

func isNoTask(t *testing.T, client apiClient, what, id string) {
	t.Helper()
	_, get := client.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: id}))
	_, update := client.UpdateTask(t.Context(), connect.NewRequest(&outriggerv1.UpdateTaskRequest{TaskId: id}))
	_, end := client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: id}))
	for rpc, err := range map[string]error{"GetTask": get, "UpdateTask": update, "CancelTask": end} {
		if code, paths := refusal(t, err); connect.CodeOf(err) != connect.CodeNotFound || code != errmap.InvalidParams || len(paths) != 1 || paths[0] != "task_id" {
			t.Errorf("%s of %s: got %v (%s) at %q", rpc, what, err, code, paths)
		}
	}
}

// TestTasksOfABackend shares no task between clients, each of which has a tower.
func TestTasksOfABackend(t *testing.T) {
	t.Parallel()
	for name, height := range floors() {
		for way, dial := range protocols() {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				tw := buildDesk(t, height, mcptest.Desk())
				client := dial(t, tw.url)
				printing := begin(t, client, "begin", `{"job":"printing"}`)
				id := printing.GetTaskId()
				if printing.GetStatus() != working || strings.Contains(id, "printing") {
					t.Errorf("got %v", printing)
				}
				if now := look(t, client, id); now.GetStatus() != working {
					t.Errorf("got %v", now)
				}
				tw.desk.Advance("printing")
				if now := look(t, client, id); now.GetStatus() != completed || blockText(now.GetResult()) != "Ten pages." {
					t.Errorf("got %v", now)
				}

				_, outcome, err := stream(t, client, with(toolCall("do", `{"job":"binding"}`), canAll()))
				binding := outcome.GetTask()
				if err != nil || binding.GetStatus() != asking || binding.GetInputRequests()["colour"].GetElicitation() == nil {
					t.Fatalf("got %v, %v", outcome, err)
				}
				if _, err := client.UpdateTask(t.Context(), connect.NewRequest(&outriggerv1.UpdateTaskRequest{
					TaskId: binding.GetTaskId(), InputResponses: map[string]*outriggerv1.InputResponse{"colour": accepted(`{"colour":"red"}`)},
				})); err != nil {
					t.Error(err)
				}
				if now := look(t, client, binding.GetTaskId()); now.GetStatus() != completed || now.GetResult().GetError().GetErrorType() != "OutOfGlue" {
					t.Errorf("got %v", now)
				}

				drying := begin(t, client, "do", `{"job":"drying"}`)
				if now := look(t, client, drying.GetTaskId()); now.GetError().GetCode() != -32603 {
					t.Errorf("got %v", now)
				}
				folding := begin(t, client, "do", `{"job":"folding"}`)
				if _, err := client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: folding.GetTaskId()})); err != nil {
					t.Error(err)
				}
				if now := look(t, client, folding.GetTaskId()); now.GetStatus() != cancelled {
					t.Errorf("got %v", now)
				}

				isNoTask(t, client, "the backend's own id", "printing")
				isNoTask(t, client, "an unknown one", "t_unknown")
				isNoTask(t, client, "a forged one", id[:len(id)-2]+"AA")
				isNoTask(t, stranger(t, tw.url), "another caller's", id)
			})
		}
	}
}

// TestTasksOfASidecar has a plain RPC that takes longer than its tool says.
func tasksOfASidecar(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	// Without tasks it is a call, and one that is quick enough stays one.
	if got := run(t, client, toolCall("lab.sleep", `{"duration":"0s","nonce":"n"}`)); !strings.Contains(string(got.GetResult().GetDataJson()), `"nonce":"n"`) {
		t.Errorf("got %v", got)
	}
	if got := run(t, client, with(toolCall("lab.sleep", `{"duration":"0s","nonce":"n"}`), canAll())); got.GetResult() == nil {
		t.Errorf("got %v", got)
	}
	slow := begin(t, client, "lab.sleep", `{"duration":"600s"}`)
	if now := look(t, client, slow.GetTaskId()); now.GetStatus() != working {
		t.Errorf("got %v", now)
	}
	if _, err := client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: slow.GetTaskId()})); err != nil {
		t.Error(err)
	}
	if now := look(t, client, slow.GetTaskId()); now.GetStatus() != cancelled {
		t.Errorf("got %v", now)
	}
	isNoTask(t, stranger(t, tw.url), "another caller's", slow.GetTaskId())
}

// TestChangesOfEveryKindArrive announces at the backend and listens at the top.
func TestChangesOfEveryKindArrive(t *testing.T) {
	t.Parallel()
	for name, height := range floors() {
		for way, dial := range protocols() {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				tw := build(t, height, mcptest.Desk(), nil)
				client := dial(t, tw.url)
				native := begin(t, client, "begin", `{"job":"printing"}`).GetTaskId()
				own := begin(t, client, "lab.sleep", `{"duration":"600s"}`).GetTaskId()
				filter := &outriggerv1.ChangeFilter{
					ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
					ResourceUris: []string{"desk://notes/1", "desk://seal"}, TaskIds: []string{native, own, "t_unknown"},
				}
				changes := subscribe(t, client, toChanges(filter))
				ack := heard(t, changes).GetAcknowledged()
				filter.TaskIds = filter.GetTaskIds()[:2]
				if !proto.Equal(ack, filter) {
					t.Errorf("acknowledged %v, want %v", ack, filter)
				}
				// A change may come twice around a change of what a sidecar asks its
				// backend for, and a new catalog may have other resources too: so they
				// come first.
				var before []*outriggerv1.Notification
				next := func() *outriggerv1.Notification {
					for {
						n := heard(t, changes)
						if !slices.ContainsFunc(before, func(b *outriggerv1.Notification) bool { return proto.Equal(b, n) }) {
							before = append(before, n)
							return n
						}
					}
				}
				notes := &outriggerv1.Notification{Method: "notifications/resources/updated",
					ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"uri":"desk://notes/1"}`)}}
				for _, change := range []*outriggerv1.Notification{
					{Method: "notifications/resources/list_changed"}, notes,
					{Method: "notifications/tools/list_changed"}, {Method: "notifications/prompts/list_changed"},
				} {
					if change.GetMethod() == "notifications/tools/list_changed" {
						tw.desk.SetTools(tw.desk.Tools[1:])
					}
					if err := tw.desk.Announce(t.Context(), change); err != nil {
						t.Fatal(err)
					}
					if got := next(); !proto.Equal(got, change) {
						t.Errorf("got %v, want %v", got, change)
					}
				}
				if _, err := client.GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: "show_everything"})); connect.CodeOf(err) != connect.CodeNotFound {
					t.Errorf("the tool that is gone: %v", err)
				}
				if err := tw.desk.Announce(t.Context(), &outriggerv1.Notification{Method: "notifications/tasks",
					ParamsForm: &outriggerv1.Notification_Task{Task: tw.desk.Advance("printing")}}); err != nil {
					t.Fatal(err)
				}
				if got := next().GetTask(); got.GetTaskId() != native || got.GetStatus() != completed || blockText(got.GetResult()) != "Ten pages." {
					t.Errorf("got %v", got)
				}
				if _, err := client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: own})); err != nil {
					t.Fatal(err)
				}
				if got := next().GetTask(); got.GetTaskId() != own || got.GetStatus() != cancelled {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}

// What is not offered is not acknowledged, and does not end the stream.
func TestOnlyWhatIsReportedIsAcknowledged(t *testing.T) {
	t.Parallel()
	tools := func() *mcptest.Native {
		return &mcptest.Native{Tools: []mcptest.NativeTool{{Declared: mcptest.JSONTool("knock", "Knock.", mcptest.NoArguments, "")}}}
	}
	rig := mcptest.Start(t, mcptest.Options{Native: tools(), NoDemo: true})
	url := mount(t, ofRig(rig), connectapiDepth(0))
	for way, dial := range ways() {
		stream := subscribe(t, dial(t, url), toChanges(&outriggerv1.ChangeFilter{
			ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
			ResourceUris: []string{"desk://notes/1"}, TaskIds: []string{"t_1"},
		}))
		if ack := heard(t, stream).GetAcknowledged(); !proto.Equal(ack, &outriggerv1.ChangeFilter{ToolsListChanged: true}) {
			t.Errorf("%s: acknowledged %v", way, ack)
		}
	}
}
