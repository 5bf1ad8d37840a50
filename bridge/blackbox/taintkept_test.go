// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// support is the context of a caller who sees the class of the tainted values.
func support(t *testing.T) context.Context {
	t.Helper()
	return mcptest.As(t, outrigger.Grant{Name: "support", Tools: []string{"*"}, Resources: []string{"*"}})
}

// all is all that an outcome has.
func all(o *mcptest.Outcome) string {
	return fmt.Sprint(o.Err, string(o.Result), o.Outcome, o.Answer, o.Explanation, o.Header, o.Trailer)
}

// A caller with the class sees the values, and records do not: they keep what has no class.
func TestRecordsKeepNoValuesOfAClass(t *testing.T) {
	t.Parallel()
	g := newTaintRig(t, "hide", nil)
	if kept := keptOf(t, g); len(kept) > 0 {
		t.Errorf("it is kept: %.1500s", kept[0])
	}
	rules := &mcptest.Blind{Records: true}
	g = newTaintRig(t, "hide", func(r mcptest.Rules) mcptest.Rules {
		rules.Rules = r
		return rules
	})
	if kept := keptOf(t, g); len(kept) == 0 || rules.Uses() == 0 {
		t.Error("records keep nothing of a class, whatever the rules say of them")
	}
}

// keptOf calls tools for a caller who sees everything, and returns the lines with a value of a class that are kept.
func keptOf(t *testing.T, g *taintRig) (found []string) {
	t.Helper()
	for _, tool := range []string{"shop.get", "shop.list", "shop.feed", "shop.import"} {
		got := g.rig.Handle(support(t), &mcptest.Call{Tool: tool, Arguments: `{"id":"1"}`})
		if leak(all(got), taint) == "" {
			t.Errorf("%s: support does not see it: %s", tool, all(got))
		}
		reply := string(replyTo(support(t), t, g.rig, mcptest.Canonical, "tools/call", `"name":"`+tool+`","arguments":{"id":"1"}`))
		if leak(reply, taint) == "" {
			t.Errorf("%s: support does not see it: %s", tool, reply)
		}
	}
	g.backend.mode.Store("error")
	if reply := string(replyTo(support(t), t, g.rig, mcptest.Canonical, "tools/call", `"name":"shop.get","arguments":{"id":"1"}`)); leak(reply, taint) == "" {
		t.Errorf("support does not see the error: %s", reply)
	}
	kept := g.kept(t)
	if leak(kept, plainText) == "" {
		t.Error("nothing is kept")
	}
	for line := range strings.SplitSeq(kept, "\n") {
		// The text of an error is the backend's own, and is recorded for callers who may read it.
		if form := leak(line, taint); form != "" && !strings.Contains(line, `"TOOL_EXECUTION_FAILED"`) {
			found = append(found, line)
		}
	}
	return found
}

// The newest message of a watch is one for all readers, and each sees its own part of it.
func TestReadersOfAWatchSeeTheirOwnPart(t *testing.T) {
	t.Parallel()
	g := newTaintRig(t, "hide", nil)
	read := func(ctx context.Context) string {
		return all(g.rig.Handle(ctx, &mcptest.Call{Question: &outriggerv1.ReadResourceRequest{Uri: "outrigger://watches/shop.feed?id=1"}}))
	}
	for range 2 {
		if got := read(support(t)); leak(got, taint) == "" {
			t.Errorf("support does not see it: %s", got)
		}
		if got := read(t.Context()); leak(got, taint) != "" || leak(got, plainText) == "" {
			t.Errorf("others see: %s", got)
		}
	}
}

// A replica that takes a task over has its result as its caller sees it: by the identity that is kept with it, else as one without.
func TestATaskThatIsTakenOverShowsWhatItsCallerSees(t *testing.T) {
	t.Parallel()
	g := newTaintRig(t, "hide", nil)
	for name, tc := range map[string]struct {
		who  *statev1.TaskIdentity
		want bool
	}{
		"support":               {&statev1.TaskIdentity{Name: "support", Source: "tokens"}, true},
		"of another source":     {&statev1.TaskIdentity{Name: "support", Source: "oauth", Issuer: "https://a", Subject: "b"}, false},
		"another caller":        {&statev1.TaskIdentity{Name: "ann"}, false},
		"of an earlier release": {nil, false},
	} {
		again, err := proto.Marshal(&statev1.TaskCall{Tool: "shop.slow", Procedure: "/shop.v1.Shop/Slow", Caller: "caller:support", Wire: wireText(nil, 1, "1"), Identity: tc.who})
		if err != nil {
			t.Fatal(err)
		}
		result, err := g.rig.TakeOver(t.Context(), again)
		if got := fmt.Sprint(result, err); (leak(got, taint) != "") != tc.want || leak(got, plainText) == "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// nativeRig is a sidecar in front of a native backend with one tool, whose output schema gives a class to a property.
func nativeRig(t *testing.T, answer func(events func(*outriggerv1.ToolEvent)) *outriggerv1.ToolOutcome, task func() *outriggerv1.Task, rules func(mcptest.Rules) mcptest.Rules) *mcptest.Rig {
	t.Helper()
	tool := mcptest.JSONTool("look", "Look somebody up.", mcptest.NoArguments,
		`{"type":"object","properties":{"email":{"type":"string","minLength":5,"x-outrigger-visible-to":"pii"},"name":{"type":"string"}},"required":["email"]}`)
	parts := mcptest.Parts{
		From: mcptest.Declared(&outriggerv1.ServerDescription{
			Name: "desk", Version: "1", ContractVersion: "1.0.0", Capabilities: &outriggerv1.ServerCapabilities{Tasks: true},
		}, tool),
		Native: mcptest.Speaking{Run: answer, Answer: func(context.Context, proto.Message, http.Header) (proto.Message, *errmap.Error) {
			if task == nil {
				return nil, errmap.New(errmap.ToolExecutionFailed, errmap.Message("no task "+taint), errmap.BackendCode("internal"))
			}
			return task(), nil
		}},
		Configure: func(c *configv1.Config) {
			c.Trust = proto.String("trusted")
			c.Record.Dir, c.Record.Payloads = proto.String(filepath.Join(t.TempDir(), "records")), true
			c.Access.Policy = &configv1.Policy{Classes: []*configv1.FieldClass{{Name: "pii", Callers: []string{"support"}, Otherwise: "mask"}}}
		},
	}
	parts.Adjust.Rules = rules
	return mcptest.Pipe(t, parts)
}

// nativeEnds are the ends of a call of that tool, with the taint wherever one may be.
func nativeEnds() map[string]*outriggerv1.ToolOutcome {
	data := `{"email":"` + taint + `","name":"` + plainText + `"}`
	whole := mcptest.Success(data, mcptest.TextBlock(data), mcptest.TextBlock("mail "+taint))
	whole.GetResult().Explanation = "about " + taint
	whole.GetResult().MetaForm = &outriggerv1.ToolResult_MetaJson{MetaJson: []byte(`{"a":"` + taint + `"}`)}
	failed := &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: "failure", Content: []*outriggerv1.ContentBlock{mcptest.TextBlock(taint)}, Error: &outriggerv1.ErrorDetail{
			ErrorType: "Missing", ErrorMessage: "no " + taint,
			ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetailsJson{ErrorDetailsJson: []byte(`"` + taint + `"`)},
		},
	}}}
	return map[string]*outriggerv1.ToolOutcome{
		"result": whole, "failure": failed, "an invalid result": mcptest.Success(`{"email":["` + taint + `"]}`),
		"task":         {Outcome: &outriggerv1.ToolOutcome_Task{Task: nativeTask(whole.GetResult())}},
		"running task": {Outcome: &outriggerv1.ToolOutcome_Task{Task: nativeTask(nil)}},
	}
}

// nativeTask is a task with a result, or without.
func nativeTask(result *outriggerv1.ToolResult) *outriggerv1.Task {
	now := timestamppb.New(mcptest.Moment())
	out := &outriggerv1.Task{
		TaskId: "1", Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING, StatusMessage: "looking for " + taint, CreatedAt: now, LastUpdatedAt: now,
	}
	if result != nil {
		copied, _ := proto.Clone(result).(*outriggerv1.ToolResult)
		out.Status, out.Completion = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, &outriggerv1.Task_Result{Result: copied}
	}
	return out
}

// lookedUp calls the tool to an end, and then asks for its task; all that comes of it is returned.
func lookedUp(ctx context.Context, t *testing.T, end *outriggerv1.ToolOutcome, later func() *outriggerv1.Task, rules func(mcptest.Rules) mcptest.Rules) string {
	t.Helper()
	rig := nativeRig(t, func(events func(*outriggerv1.ToolEvent)) *outriggerv1.ToolOutcome {
		if events != nil {
			events(mcptest.Progress(3, "at "+taint))
			events(mcptest.Log(outriggerv1.LogLevel_LOG_LEVEL_ERROR, `"`+taint+`"`))
			events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Partial{Partial: &outriggerv1.PartialData{
				DataForm: &outriggerv1.PartialData_DataJson{DataJson: []byte(`{"email":"` + taint + `"}`)},
			}}})
		}
		out, _ := proto.Clone(end).(*outriggerv1.ToolOutcome)
		return out
	}, later, rules)
	var out strings.Builder
	got := rig.Handle(ctx, &mcptest.Call{Tool: "look", Tasks: true, Caller: "ann", Events: func(e *outriggerv1.ToolEvent) { fmt.Fprintln(&out, e) }})
	fmt.Fprintln(&out, all(got))
	if task := got.Outcome.GetTask(); task != nil {
		fmt.Fprintln(&out, all(rig.Handle(ctx, &mcptest.Call{Question: &outriggerv1.GetTaskRequest{TaskId: task.GetTaskId()}, Tasks: true, Caller: "ann"})))
	}
	return out.String()
}

// Of what native tools answer, their callers see the data without the values of classes: no content, texts and events with what
// cannot be read.
func TestNativeToolsShowWhatTheirCallersSee(t *testing.T) {
	t.Parallel()
	end := nativeEnds()
	laters := map[string]func() *outriggerv1.Task{
		"": nil, ", later done": func() *outriggerv1.Task { return nativeTask(end["result"].GetResult()) }, ", later failed": func() *outriggerv1.Task {
			out := nativeTask(nil)
			out.Status = outriggerv1.TaskStatus_TASK_STATUS_FAILED
			out.Completion = &outriggerv1.Task_Error{Error: &outriggerv1.ErrorObject{
				Code: -32603, Message: "no " + taint, DataForm: &outriggerv1.ErrorObject_DataJson{DataJson: []byte(`"` + taint + `"`)},
			}}
			return out
		},
	}
	for name, outcome := range end {
		for after, later := range laters {
			if after != "" && outcome.GetTask() == nil {
				continue
			}
			got := lookedUp(t.Context(), t, outcome, later, nil)
			if leak(got, taint) != "" {
				t.Errorf("%s%s: %s", name, after, got)
			}
			if strings.HasPrefix(name, "result") && (!strings.Contains(got, "***") || leak(got, plainText) == "" || !strings.Contains(got, "progress:3")) {
				t.Errorf("%s%s: too little is shown: %s", name, after, got)
			}
			if got := lookedUp(support(t), t, outcome, later, nil); leak(got, taint) == "" && name != "an invalid result" {
				t.Errorf("%s%s: support does not see it: %s", name, after, got)
			}
		}
	}
}

// With each place taken out where answers of native backends come in, a taint leaves.
func TestEachPlaceOfNativeToolsIsNeeded(t *testing.T) {
	t.Parallel()
	for at, name := range map[string]string{"(*natives).callNative": "result", "(*natives).settleTaskOf": "task", "(*natives).shownError": "running task"} {
		got := lookedUp(t.Context(), t, nativeEnds()[name], nil, func(r mcptest.Rules) mcptest.Rules {
			return &mcptest.Blind{Rules: r, At: at}
		})
		if leak(got, taint) == "" {
			t.Errorf("%s is not needed: %s", at, got)
		}
	}
}

// What is kept for a caller is for what it saw then: where the policy or its classes have changed it gets an error, and what was kept
// again once they are as before.
func TestWhatIsKeptIsForOneView(t *testing.T) {
	t.Parallel()
	const nothing, everything = "", "*"
	for name, blind := range map[string][2]string{"a class is taken away": {everything, nothing}, "a class is given": {nothing, everything}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sees := &mcptest.Blind{At: blind[0]}
			g := newMarkedRig(t, byPolicy, "mask", func(r mcptest.Rules) mcptest.Rules {
				sees.Rules = r
				return sees
			}, compacted)
			ask := func(question proto.Message) string {
				return all(g.rig.Handle(t.Context(), &mcptest.Call{Question: question, Tasks: true, Caller: "ann"}))
			}
			begun := g.rig.Handle(t.Context(), &mcptest.Call{Tool: "shop.slow", Arguments: `{"id":"1"}`, Tasks: true, Caller: "ann"})
			large := all(g.rig.Handle(t.Context(), &mcptest.Call{Tool: "shop.list", Arguments: `{"id":"1"}`, Caller: "ann", Budget: 200}))
			program := func(text string) string {
				return all(g.rig.Handle(t.Context(), &mcptest.Call{Tool: runName, Arguments: `{"program":` + quoted(text) + `}`, Caller: "ann", Budget: 200}))
			}
			held := func(reply string) proto.Message {
				return &outriggerv1.ReadResourceRequest{Uri: regexp.MustCompile(`outrigger://results/[A-Za-z0-9._~-]+`).FindString(reply)}
			}
			kept := map[string]proto.Message{
				"task": &outriggerv1.GetTaskRequest{TaskId: begun.Outcome.GetTask().GetTaskId()}, "held": held(large),
				"program": held(program(`result = shop.list(id="1")`)),
			}
			testkit.Until(t, "the task ends", func() bool { return leak(ask(kept["task"]), plainText) != "" })
			for round, at := range []string{blind[0], blind[1], blind[0]} {
				sees.At = at
				for what, question := range kept {
					got := ask(question)
					isShown := leak(got, plainText) != ""
					if isRefused := strings.Contains(got, "have changed since this result was made"); isShown != (round != 1) || isRefused != (round == 1) {
						t.Errorf("round %d, %s: %s", round, what, got)
					}
					if (leak(got, taint) != "") != (round != 1 && at == everything) {
						t.Errorf("round %d, %s shows: %s", round, what, got)
					}
				}
			}
		})
	}
}
