// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// measuring is a desk with a tool that becomes the task its argument names, and
// promises data of a certain form.
func measuring() *mcptest.Native {
	state := func(id string, status outriggerv1.TaskStatus, result *outriggerv1.ToolResult) *outriggerv1.Task {
		at := timestamppb.New(mcptest.Moment())
		t := &outriggerv1.Task{TaskId: id, Status: status, CreatedAt: at, LastUpdatedAt: at}
		if result != nil {
			t.Completion = &outriggerv1.Task_Result{Result: result}
		}
		return t
	}
	backend := mcptest.Desk()
	for id, result := range map[string]*outriggerv1.ToolResult{
		"kept":   mcptest.Success(`{"grams":250}`).GetResult(),
		"broken": mcptest.Success(`{"grams":"heavy"}`).GetResult(),
		"empty":  mcptest.Success("", mcptest.TextBlock("What was it?")).GetResult(),
		"failed": {Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "ScaleBroken", ErrorMessage: "The scale is broken: password=hunter2hunter2"}},
	} {
		backend.Tasks[id] = []*outriggerv1.Task{
			state(id, outriggerv1.TaskStatus_TASK_STATUS_WORKING, nil), state(id, outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, result),
		}
		backend.Tasks["at once "+id] = []*outriggerv1.Task{state("at-once-"+id, outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, result)}
	}
	const job = `{"type":"object","properties":{"job":{"type":"string"}},"required":["job"]}`
	declared := mcptest.JSONTool("measure", "Measure it.", job, `{"type":"object","properties":{"grams":{"type":"integer"}},"required":["grams"]}`)
	declared.Execution = &outriggerv1.ToolExecution{TaskSupport: "optional"}
	for _, tool := range backend.Tools {
		if tool.Declared.GetName() == "do" {
			backend.Tools = append(backend.Tools, mcptest.NativeTool{Declared: declared, Run: tool.Run})
		}
	}
	return backend
}

// ends are how the tasks of measuring end for a caller: with what is in the raw
// answer, and with a canonical code where the result breaks the promise.
func ends() map[string]struct{ code, says string } {
	return map[string]struct{ code, says string }{
		"kept":   {"", `"structuredContent":{"grams":250}`},
		"broken": {"INVALID_TOOL_OUTPUT", `/grams`},
		"empty":  {"INVALID_TOOL_OUTPUT", `returned no data`},
		"failed": {"", `The scale is broken`},
	}
}

// A task's result keeps what its tool promises, as the result of a call does:
// where somebody asks for it, and where it is told.
func TestResultsOfABackendsTasksKeepTheirSchema(t *testing.T) {
	t.Parallel()
	for job, want := range ends() {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Native: measuring(), NoDemo: true})
			heard := make(chan string, 4)
			ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
			begun := ann.send("tools/call", `"name":"measure","arguments":{"job":"`+job+`"}`)
			id := string(begun.Result["taskId"])
			if id == "" {
				t.Fatalf("no task: %s", begun.raw)
			}
			if got := ann.send("tasks/get", `"taskId":`+id); got.text("status") != "working" {
				t.Errorf("at work: %s", got.raw)
			}
			ended := make(chan modernAnswer, 1)
			go func() { ended <- ann.send("subscriptions/listen", `"notifications":{"taskIds":[`+id+`]}`) }()
			<-heard
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
			defer cancel()
			if err := rig.Native.Announce(ctx, &outriggerv1.Notification{
				Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: rig.Native.Advance(job)},
			}); err != nil {
				t.Fatal(err)
			}
			told := <-heard
			rig.Bridge.Feed().Close()
			<-ended
			asked := ann.send("tasks/get", `"taskId":`+id)
			for how, raw := range map[string]string{"asked": asked.raw, "told": told} {
				hasCode := strings.Contains(raw, `"code":"INVALID_TOOL_OUTPUT"`)
				if hasCode != (want.code != "") || !strings.Contains(raw, want.says) || !strings.Contains(raw, `"status":"completed"`) || strings.Contains(raw, `"structuredContent":{"grams":"heavy`) {
					t.Errorf("%s: %s, want %q and %s", how, raw, want.code, want.says)
				}
				if strings.Contains(raw, `"isError":true`) != (job != "kept") || strings.Contains(raw, "hunter2") {
					t.Errorf("%s: %s", how, raw)
				}
			}
		})
	}
}

// A task may have ended when the call returns: callers whose protocol shows that
// see the same end.
func TestTasksThatEndAtOnceKeepTheirSchema(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: measuring(), NoDemo: true})
	for job, want := range ends() {
		call := toolCall(rig.Bridge, "desk.measure", `{"job":"at once `+job+`"}`)
		call.Context = &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
		resp := rig.Bridge.Handle(t.Context(), call)
		if resp.Err != nil {
			t.Errorf("%s: %v", job, resp.Err)
			continue
		}
		result := resp.ToolOutcome().GetTask().GetResult()
		details := string(result.GetError().GetErrorDetailsJson())
		if strings.Contains(details, string(errmap.InvalidToolOutput)) != (want.code != "") || strings.Contains(string(result.GetDataJson()), "heavy") {
			t.Errorf("%s: %v", job, result)
		}
		if strings.Contains(result.String(), "hunter2") {
			t.Errorf("%s: a secret leaves: %v", job, result)
		}
	}
}

// A tool that has gone promises nothing any more, and the tasks that it began can
// still be asked for.
func TestATaskOutlivesItsTool(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: measuring(), NoDemo: true})
	ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann", capabilities: withTasks}
	id := string(ann.send("tools/call", `"name":"measure","arguments":{"job":"broken"}`).Result["taskId"])
	rig.Native.Advance("broken")
	if got := ann.send("tasks/get", `"taskId":`+id); !strings.Contains(got.raw, "INVALID_TOOL_OUTPUT") {
		t.Errorf("while the tool is there: %s", got.raw)
	}
	rig.Native.SetTools(mcptest.Desk().Tools)
	if err := rig.Live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ann.send("tasks/get", `"taskId":`+id); !strings.Contains(got.raw, `"grams":"heavy"`) {
		t.Errorf("afterwards: %s", got.raw)
	}
}
