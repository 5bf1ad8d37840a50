// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const withTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// sleeper is a backend that takes its time.
type sleeper struct {
	takes time.Duration
	fails *errmap.Error
	ended chan error
}

func (s *sleeper) call(ctx context.Context, _ *mcptest.Method, _ []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
	select {
	case <-time.After(s.takes):
		s.ended <- nil
		return &mcptest.Answer{}, s.fails
	case <-ctx.Done():
		s.ended <- context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
		}
		return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
	}
}

// sleeping is ann in front of a backend that takes so long for lab.sleep, calls
// of which become tasks after two seconds.
func sleeping(t *testing.T, live *mcptest.Tools, s *sleeper, configure func(*configv1.Config)) modernClient {
	t.Helper()
	s.ended = make(chan error, 1)
	b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(s.call), Configure: configure})
	return modernClient{t: t, bridge: b, caller: "ann", capabilities: withTasks}
}

const sleep = `"name":"lab_sleep","arguments":{"duration":"1s"}`

// Calls of plain RPCs that take long become tasks, for clients that know them:
// the result is the one that the call would have had.
func TestACallThatTakesLongBecomesATask(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for _, tc := range []struct {
		name   string
		takes  time.Duration
		caps   string
		fails  *errmap.Error
		isTask bool
		end    string
	}{
		{"soon", time.Second, withTasks, nil, false, `"isError":false`},
		{"late", 5 * time.Second, withTasks, nil, true, `"isError":false`},
		{"late, without the capability", 5 * time.Second, `{}`, nil, false, `"isError":false`},
		{"soon, and it fails", time.Second, withTasks, errmap.New(errmap.ToolExecutionFailed, errmap.Message("it broke")), false, `"isError":true`},
		{"late, and it fails", 5 * time.Second, withTasks, errmap.New(errmap.ToolExecutionFailed, errmap.Message("it broke")), true, `"isError":true`},
		{"never", time.Hour, withTasks, nil, true, `"code":"TIMEOUT"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ann := sleeping(t, live, &sleeper{takes: tc.takes, fails: tc.fails}, nil)
				ann.capabilities = tc.caps
				start := time.Now()
				got := ann.send("tools/call", sleep)
				if tc.isTask != (got.text("resultType") == "task") {
					t.Fatalf("after %v: %s", time.Since(start), got.raw)
				}
				if !tc.isTask {
					if !strings.Contains(got.raw, tc.end) {
						t.Errorf("got %s", got.raw)
					}
					return
				}
				if time.Since(start) != 2*time.Second || got.text("status") != "working" || got.Result["result"] != nil {
					t.Errorf("after %v: %s", time.Since(start), got.raw)
				}
				id := `"taskId":` + string(got.Result["taskId"])
				if now := ann.send("tasks/get", id); now.text("status") != "working" || now.text("resultType") != "complete" {
					t.Errorf("at once: %s", now.raw)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				now := ann.send("tasks/get", id)
				if now.text("status") != "completed" || !strings.Contains(string(now.Result["result"]), tc.end) {
					t.Errorf("at the end: %s", now.raw)
				}
				if err := schema.Check("GetTaskResult", resultOf(now)); err != nil {
					t.Error(err)
				}
				if again := ann.send("tasks/cancel", id); string(again.Result["resultType"]) != `"complete"` {
					t.Errorf("cancelling what has ended: %s", again.raw)
				}
				if same := ann.send("tasks/get", id); same.raw != now.raw {
					t.Errorf("and now it is %s", same.raw)
				}
			})
		})
	}
}

// What has to be asked is asked before there is a task, so that client and task do not wait for each other.
func TestQuestionsComeBeforeTheTask(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		slow := &sleeper{takes: 5 * time.Second}
		ann := sleeping(t, live, slow, both(asks, taskAfter(2*time.Second)))
		ann.capabilities = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		const cancel = `"name":"fleet_cancel_order","arguments":{"orderId":"1001"}`
		start := time.Now()
		asked := ann.send("tools/call", cancel)
		if asked.text("resultType") != "input_required" || asked.Result["taskId"] != nil || time.Since(start) != 0 {
			t.Fatalf("after %v: %s", time.Since(start), asked.raw)
		}
		got := ann.send("tools/call", cancel+consent(asked))
		if got.text("resultType") != "task" || got.text("status") != "working" || time.Since(start) != 2*time.Second {
			t.Fatalf("after %v: %s", time.Since(start), got.raw)
		}
		if err := <-slow.ended; err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("it ran for %v: %v", time.Since(start), err)
		}
	})
}

// A task is its caller's: to anybody else it does not exist, and its end can be
// asked for by its caller alone.
func TestATaskOfTheSidecarIsItsCallersOwn(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{takes: 20 * time.Second}
		ann := sleeping(t, live, s, nil)
		bob, mute := ann, ann
		bob.caller, mute.capabilities = "bob", `{}`
		begun := ann.send("tools/call", sleep)
		id := `"taskId":` + string(begun.Result["taskId"])
		unknown := ann.send("tasks/get", `"taskId":"t_AAAAAAAAAAAAAAAAAAAAAAAAAAA"`)
		for method, params := range map[string]string{"tasks/get": id, "tasks/cancel": id, "tasks/update": id + `,"inputResponses":{}`} {
			if got := bob.send(method, params); got.code() != -32602 || method == "tasks/get" && got.raw != unknown.raw {
				t.Errorf("%s by another caller: %s, an unknown one is %s", method, got.raw, unknown.raw)
			}
			if got := mute.send(method, params); got.status != 400 || got.code() != -32021 {
				t.Errorf("%s without the capability: %d %s", method, got.status, got.raw)
			}
		}
		heard := map[string][]string{}
		done := make(chan struct{}, 2)
		for _, c := range []modernClient{ann, bob} {
			c.heard = func(message string) { heard[c.caller] = append(heard[c.caller], message) }
			go func() {
				c.send("subscriptions/listen", `"notifications":{"taskIds":[`+string(begun.Result["taskId"])+`]}`)
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if got := ann.send("tasks/cancel", id); got.text("resultType") != "complete" || got.Result["taskId"] != nil {
			t.Errorf("cancel: %s", got.raw)
		}
		if err := <-s.ended; !errors.Is(err, mcptest.ErrTaskCancelled) {
			t.Errorf("the backend's call ended with %v", err)
		}
		synctest.Wait()
		if got := ann.send("tasks/get", id); got.text("status") != "cancelled" || got.Result["result"] != nil {
			t.Errorf("after it: %s", got.raw)
		}
		ann.bridge.EndStreams()
		<-done
		<-done
		if len(heard["bob"]) != 1 || !strings.Contains(heard["bob"][0], `"notifications":{}`) {
			t.Errorf("another caller hears %q", heard["bob"])
		}
		if len(heard["ann"]) != 2 || !strings.Contains(heard["ann"][1], `"method":"notifications/tasks","params":{"taskId":`+string(begun.Result["taskId"])+`,"status":"cancelled"`) {
			t.Errorf("its caller hears %q", heard["ann"])
		}
	})
}

// Once a call is a task, the end of the request that began it is not its end.
func TestATaskOutlivesTheRequestThatBeganIt(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{takes: 5 * time.Second}
		ann := sleeping(t, live, s, nil)
		ctx, leave := context.WithCancel(t.Context())
		req := toolCall(ann.bridge, "lab.sleep", `{"duration":"1s"}`)
		req.Caller = "ann"
		req.Tasks = true
		resp := ann.bridge.Handle(ctx, req)
		leave()
		begun := resp.Outcome.GetTask()
		if begun == nil {
			t.Fatalf("no task: %+v", resp)
		}
		if err := <-s.ended; err != nil {
			t.Errorf("the call ended with %v", err)
		}
		synctest.Wait()
		if got := ann.send("tasks/get", fmt.Sprintf(`"taskId":%q`, begun.GetTaskId())); got.text("status") != "completed" {
			t.Errorf("got %s", got.raw)
		}
		// Before it is one, it is.
		ctx, leave = context.WithTimeout(t.Context(), time.Second)
		defer leave()
		again := toolCall(ann.bridge, "lab.sleep", `{"duration":"1s"}`)
		again.Caller, again.Tasks = req.Caller, true
		if resp := ann.bridge.Handle(ctx, again); resp.Err == nil {
			t.Errorf("got %+v", resp)
		}
		if err := <-s.ended; err == nil {
			t.Error("the backend's call went on")
		}
	})
}

// TestAnySlowCallBecomesATask: after the configured time, where the client
// supports tasks and the tool says nothing about them.
func TestAnySlowCallBecomesATask(t *testing.T) {
	t.Parallel()
	const capable = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	for _, tc := range []struct {
		name  string
		meta  string
		after time.Duration
		want  string
		taken time.Duration
	}{
		{"a client with tasks", capable, time.Second, `"resultType":"task"`, time.Second},
		{"one that is quick enough", capable, 10 * time.Second, `"resultType":"complete"`, 5 * time.Second},
		{"a client without tasks", modernMeta, time.Second, `"resultType":"complete"`, 5 * time.Second},
		{"without the setting", capable, 0, `"resultType":"complete"`, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			live := mcptest.Memory(t)
			synctest.Test(t, func(t *testing.T) {
				slow := func(ctx context.Context, m *mcptest.Method, in []byte, h http.Header) (*mcptest.Answer, *errmap.Error) {
					time.Sleep(5 * time.Second) // of the bubble's own clock
					return mcptest.Echo(ctx, m, in, h)
				}
				b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(slow), Configure: taskAfter(tc.after)})
				start := time.Now()
				reply := b.Send(t.Context(), inbound(1, mcptest.Modern,
					`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo",`+tc.meta+`}}`))
				if !strings.Contains(string(reply.Bytes()), tc.want) || time.Since(start) != tc.taken {
					t.Errorf("after %v: %s", time.Since(start), reply.Bytes())
				}
				if !strings.Contains(tc.want, "task") {
					return
				}
				result, _ := lookup(reply.Bytes(), "result")
				id, _ := lookup(result, "taskId")
				time.Sleep(10 * time.Second)
				done := b.Send(t.Context(), inbound(2, mcptest.Modern,
					`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":`+string(id)+`,`+capable+`}}`))
				if !strings.Contains(string(done.Bytes()), `"status":"completed"`) || !strings.Contains(string(done.Bytes()), `"nonce":""`) {
					t.Errorf("the task: %s", done.Bytes())
				}
			})
		})
	}
}

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
// where somebody asks for it, and where it is pushed.
func TestResultsOfABackendsTasksKeepTheirSchema(t *testing.T) {
	t.Parallel()
	for job, want := range ends() {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Native: measuring(), NoDemo: true})
			heard := make(chan string, 4)
			ann := modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
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
			rig.EndStreams()
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
		call := toolCall(rig, "desk.measure", `{"job":"at once `+job+`"}`)
		call.Tasks = true
		resp := rig.Handle(t.Context(), call)
		if resp.Err != nil {
			t.Errorf("%s: %v", job, resp.Err)
			continue
		}
		result := resp.Outcome.GetTask().GetResult()
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
	ann := modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks}
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
