// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// approved is a rule that has the local operator approve cancellations.
func approved(change func(*configv1.PolicyApproval)) *configv1.PolicyRule {
	r := rule("large", "approve", `args.order_id > 0u`, "fleet.cancel_order")
	r.Approve = &configv1.PolicyApproval{Callers: []string{"local"}}
	if change != nil {
		change(r.Approve)
	}
	return r
}

// TestEveryWayWaitsForApproval: on each edge a call waits, runs once when it was approved, and waits again.
func TestEveryWayWaitsForApproval(t *testing.T) {
	t.Parallel()
	g := newGated(t, ruled(approved(nil)))
	for _, w := range waysIn() {
		before, order := g.cancelled.Load(), g.order(t)
		got := w.ask(t, g, order)
		if got != errmap.ApprovalRequired || g.cancelled.Load() != before {
			t.Errorf("%s: got %q", w.name, got)
			continue
		}
		if again := w.ask(t, g, order); again != errmap.ApprovalRequired || g.cancelled.Load() != before {
			t.Errorf("%s, again: got %q", w.name, again)
		}
		ids := g.bridge.Waiting(t)
		if len(ids) == 0 || len(ids) > 2 { // the notification beside a call is one, too
			t.Errorf("%s: %d calls wait", w.name, len(ids))
		}
		for _, id := range ids {
			g.bridge.Decide(t, id, true, "fine")
		}
		if ran := w.ask(t, g, order); ran != "" || g.cancelled.Load() == before {
			t.Errorf("%s, approved: got %q, calls %d", w.name, ran, g.cancelled.Load()-before)
		}
		if after := w.ask(t, g, order); after != errmap.ApprovalRequired {
			t.Errorf("%s, after its run: got %q", w.name, after)
		}
		for _, id := range g.bridge.Waiting(t) {
			g.bridge.Decide(t, id, false, "once is enough")
		}
		if denied := w.ask(t, g, order); denied != errmap.PermissionDenied {
			t.Errorf("%s, denied: got %q", w.name, denied)
		}
	}
}

// TestApproversSeeWhatACallWouldDo: a call that waits has its preview, a repetition of it is the same call although the sidecar fills its
// id, and it runs once.
func TestApproversSeeWhatACallWouldDo(t *testing.T) {
	t.Parallel()
	for _, capabilities := range []string{"", withTasks} {
		s := &shopkeeper{}
		all := rule("all", "approve", "true", "shop.*")
		all.Approve = &configv1.PolicyApproval{Callers: []string{"local"}}
		ann := s.open(t, ruled(all))
		ann.capabilities = capabilities
		const call = `"name":"shop_delete","arguments":{"name":"a"}`
		first, second := ann.send("tools/call", call).raw, ann.send("tools/call", call).raw
		waiting := ann.bridge.Approvals(t)
		if len(waiting) != 1 || waiting[0].GetPreview() != `{"text":"would delete a"}` || len(s.effects) != 0 || len(s.previews) != 1 {
			t.Fatalf("%v, effects %v, previews %v\n%s\n%s", waiting, s.effects, s.previews, first, second)
		}
		if strings.Contains(string(waiting[0].GetArgumentsJson()), "request") {
			t.Errorf("arguments: %s", waiting[0].GetArgumentsJson())
		}
		ann.bridge.Decide(t, waiting[0].GetId(), true, "fine")
		if capabilities != "" {
			testkit.Until(t, "one of the tasks runs", func() bool {
				get := func(reply string) string {
					return ann.send("tasks/get", `"taskId":"`+between(t, reply, `"taskId":"`, `"`)+`"`).raw
				}
				return strings.Contains(get(first)+get(second), "deleted a")
			})
			continue
		}
		if got := ann.send("tools/call", call).raw; !strings.Contains(got, "deleted a") || len(s.effects) != 1 || len(s.previews) != 1 {
			t.Errorf("%s, effects %v, previews %v", got, s.effects, s.previews)
		}
	}
}

// TestTheQuestionOfACallThatOthersApprove has the preview, too.
func TestTheQuestionOfACallThatOthersApprove(t *testing.T) {
	t.Parallel()
	s := &shopkeeper{}
	all := rule("all", "approve", "true", "shop.*")
	all.Approve = &configv1.PolicyApproval{Callers: []string{"local"}}
	ann := s.open(t, both(ruled(all), func(c *configv1.Config) { c.Trust = proto.String("untrusted") }, asks))
	if got := ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`); got.text("resultType") != "input_required" || !strings.Contains(got.raw, "would delete a") {
		t.Error(got.raw)
	}
}

// approvalData is what the error of a call that waits has in its data.
type approvalData struct {
	Error struct {
		Code    int
		Message string
		Data    struct {
			Code         string
			RetryAfterMs int
			Approval     struct{ ID, Handle string }
			Denial       struct{ Availability string }
		}
	}
}

func askRPC(t *testing.T, g *gated, params string) (status int, out approvalData) {
	t.Helper()
	status, raw := send(t, g.one, http.MethodPost, g.url+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":`+params+`}`)
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return status, out
}

// TestTheHandle: with it a caller learns what became of its call, also where a call without it would ask again.
func TestTheHandle(t *testing.T) {
	t.Parallel()
	g := newGated(t, func(c *configv1.Config) {
		ruled(approved(nil))(c)
		c.Experimental = []string{"structured-denials"}
	})
	const call = `{"name":"fleet.cancel_order","arguments":{"orderId":"1001"}`
	status, first := askRPC(t, g, call+"}")
	data := first.Error.Data
	if status != http.StatusForbidden || first.Error.Code != -32005 || data.Approval.ID == "" || data.Approval.Handle == "" || data.RetryAfterMs == 0 ||
		data.Denial.Availability != "available" {
		t.Fatalf("%d %+v", status, first)
	}
	withHandle := call + `,"_meta":{"dev.outrigger/approval":"` + data.Approval.Handle + `"}}`
	if _, again := askRPC(t, g, withHandle); again.Error.Data.Approval.ID != data.Approval.ID {
		t.Errorf("another approval: %+v", again)
	}
	// MCP has the envelope of the draft, and takes its handle back; one that is not the caller's is no reason to refuse a call.
	ann := modernClient{t: t, bridge: g.bridge, caller: "ann"}
	const cancel = `"name":"fleet_cancel_order","arguments":{"orderId":"1001"}`
	asked := ann.send("tools/call", cancel).raw
	if !strings.Contains(asked, `"io.modelcontextprotocol/authorization":{"reason":"insufficient_authorization","remediation":"available","authorizationContextId":"`) {
		t.Errorf("no envelope: %s", asked)
	}
	id := between(t, asked, `"approval":{"id":"`, `"`)
	for _, handle := range []string{between(t, asked, `"authorizationContextId":"`, `"`), "authzctx_of_another"} {
		ann.capabilities = `{},"io.modelcontextprotocol/authorization-context-id":"` + handle + `"` // the member of _meta behind them
		again := ann.send("tools/call", cancel).raw
		if got := between(t, again, `"approval":{"id":"`, `"`); got != id {
			t.Errorf("with %s: another approval: %s", handle, again)
		}
	}
	g.bridge.Decide(t, data.Approval.ID, false, "not on a Friday")
	_, denied := askRPC(t, g, withHandle)
	if d := denied.Error.Data; d.Code != string(errmap.PermissionDenied) || !strings.Contains(denied.Error.Message, "not on a Friday") || d.Denial.Availability != "unavailable" {
		t.Errorf("denied: %+v", denied)
	}
	for _, bad := range []string{`"x"`, `7`, `null`} {
		if _, got := askRPC(t, g, call+`,"_meta":{"dev.outrigger/approval":`+bad+`}}`); got.Error.Data.Code != string(errmap.InvalidParams) {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

// TestBoundArguments: an approval is for the arguments that its rule binds.
func TestBoundArguments(t *testing.T) {
	t.Parallel()
	g := newGated(t, ruled(approved(func(a *configv1.PolicyApproval) { a.Bound = []string{"orderId"} })))
	ids := map[string]bool{}
	for _, arguments := range []string{`{"orderId":"1001"}`, `{"order_id":1001,"reason":"late"}`, `{"orderId":"1002"}`} {
		_, got := askRPC(t, g, `{"name":"fleet.cancel_order","arguments":`+arguments+`}`)
		ids[got.Error.Data.Approval.ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("approvals: %v", ids)
	}
}

// TestACallThatWaitsAsATask: a client with tasks gets one, which runs when it was approved.
func TestACallThatWaitsAsATask(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		g := newGated(t, both(ruled(approved(func(a *configv1.PolicyApproval) { a.Within = durationpb.New(time.Hour) })), func(c *configv1.Config) {
			c.Experimental = []string{"structured-denials"}
		}))
		ann := modernClient{t: t, bridge: g.bridge, caller: "ann", capabilities: withTasks}
		order := g.order(t)
		reply := ann.send("tools/call", fmt.Sprintf(`"name":"fleet_cancel_order","arguments":{"orderId":"%d"}`, order)).raw
		id := between(t, reply, `"taskId":"`, `"`)
		if !strings.Contains(reply, `"status":"working"`) || !strings.Contains(reply, "waits for approval of 1 of [local]") || g.cancelled.Load() != 0 {
			t.Fatal(reply)
		}
		ids := g.bridge.Waiting(t)
		if len(ids) != 1 {
			t.Fatal(ids)
		}
		g.bridge.Decide(t, ids[0], approve, "as agreed")
		testkit.Until(t, "the task ends", func() bool {
			reply = ann.send("tasks/get", `"taskId":"`+id+`"`).raw
			return !strings.Contains(reply, `"status":"working"`)
		})
		want, calls := `"isError":false`, int64(1)
		if !approve {
			want, calls = "denied by local: as agreed", 0
		}
		if !approve && !strings.Contains(reply, `"denial":{"availability":"unavailable"}`) {
			t.Errorf("the task does not say that asking cannot help: %s", reply)
		}
		if !strings.Contains(reply, want) || g.cancelled.Load() != calls {
			t.Errorf("approve %t: %d calls, %s", approve, g.cancelled.Load(), reply)
		}
	}
}

// everything is a rule that has the local operator approve each call.
func everything(c *configv1.Config) {
	all := rule("all", "approve", "true", "*")
	all.Approve = &configv1.PolicyApproval{Callers: []string{"local"}}
	ruled(all)(c)
}

// TestOtherKindsOfCallsWaitAsTasks: tools of a native backend and long-running operations.
func TestOtherKindsOfCallsWaitAsTasks(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var sent atomic.Pointer[outriggerv1.ToolCall]
	signs := mcptest.NativeTool{
		Declared: mcptest.JSONTool("transfer", "Pays.", `{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]}`, ""),
		Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			calls.Add(1)
			sent.Store(call)
			return mcptest.Success(`{"paid":true}`), nil
		},
	}
	asking := mcptest.NativeTool{
		Declared: mcptest.JSONTool("doubt", "Asks.", mcptest.NoArguments, ""),
		Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{
			InputRequests: map[string]*outriggerv1.InputRequest{"sure": mcptest.AskForm("Sure?", `{"type":"object","properties":{"sure":{"type":"boolean"}}}`)},
		}}},
	}
	rig, desk := deskOf(t, mcptest.Options{Configure: everything}, signs, asking)
	desk.capabilities = withTasks
	videos, other, ann := studio(t, both(replicaOf("", time.Minute), everything))
	videos.OnBegin(func(name string) { videos.Finish(name, videos.Video("videos/1", 3)) })
	lasting, third, bob := studio(t, both(replicaOf("", short), everything))
	for _, tc := range []struct {
		name, call string
		client     modernClient
		rig        *mcptest.Rig
		calls      func() int
		approve    bool
		want       string
	}{
		{"a native tool, denied", `"name":"transfer","arguments":{"amount":1}`, desk, rig, func() int { return int(calls.Load()) }, false, "denied by local: as agreed"},
		{"a native tool", `"name":"transfer","arguments":{"amount":12345678901234567890}`, desk, rig, func() int { return int(calls.Load()) }, true, `"structuredContent":{"paid":true}`},
		{"a native tool that asks", `"name":"doubt","arguments":{}`, desk, rig, nil, true, "come back with the handle"},
		{"an operation, denied", importVideo, ann, other, func() int { return videos.Calls("ImportVideo") }, false, "denied by local: as agreed"},
		{"an operation", `"name":"studio_import_video","arguments":{"uri":"y"}`, ann, other, func() int { return videos.Calls("ImportVideo") }, true, "videos/1"},
		{"an operation that goes on", importVideo, bob, third, func() int { return lasting.Calls("ImportVideo") }, true, "call studio_get_operation with the handle"},
	} {
		reply := tc.client.send("tools/call", tc.call).raw
		waiting := tc.rig.Waiting(t)
		if !strings.Contains(reply, "waits for approval of 1 of [local]") || len(waiting) != 1 || tc.calls != nil && tc.calls() != 0 {
			t.Fatalf("%s: %v %s", tc.name, waiting, reply)
		}
		id := between(t, reply, `"taskId":"`, `"`)
		tc.rig.Decide(t, waiting[0], tc.approve, "as agreed")
		testkit.Until(t, tc.name+" ends", func() bool {
			reply = tc.client.send("tasks/get", `"taskId":"`+id+`"`).raw
			return !strings.Contains(reply, `"status":"working"`)
		})
		if !strings.Contains(reply, tc.want) || tc.calls != nil && (tc.calls() == 1) != tc.approve {
			t.Errorf("%s: %s", tc.name, reply)
		}
	}
	call := sent.Load()
	if string(call.GetArgumentsJson()) != `{"amount":12345678901234567890}` || call.GetContext().GetProtocolVersion() == "" || call.GetContext().GetCapabilities() != nil {
		t.Errorf("the native backend was sent %v", call)
	}
	if reply := desk.send("tools/call", `"name":"begin","arguments":{"job":"printing"}`).raw; !strings.Contains(reply, "APPROVAL_REQUIRED") {
		t.Errorf("a tool that returns a task of its backend: %s", reply)
	}
}

// TestARoundOfAnApprovedCallNeedsNoOtherApproval: what a tool asks its user belongs to the call that was approved. Each round counts once.
func TestARoundOfAnApprovedCallNeedsNoOtherApproval(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	ask := map[string]*outriggerv1.InputRequest{"sure": mcptest.AskForm("Sure?", `{"type":"object","properties":{}}`)}
	bill := func(name string, asked mcptest.Dialogue) mcptest.NativeTool {
		return mcptest.NativeTool{
			Declared: mcptest.JSONTool(name, "Pays.", mcptest.NoArguments, ""), Dialogue: asked,
			Run: func(context.Context, *outriggerv1.ToolCall, func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				paid.Add(1)
				return mcptest.Success(`{"paid":true}`), nil
			},
		}
	}
	rig, ann := deskOf(t, mcptest.Options{Configure: everything}, bill("bill", mcptest.Dialogue{ask}), bill("large_bill", mcptest.Dialogue{ask, ask}))
	for tool, rounds := range map[string]int{"bill": 1, "large_bill": 2} {
		before := paid.Load()
		call := fmt.Sprintf(`"name":%q,"arguments":{}`, tool)
		ann.send("tools/call", call)
		ids := rig.Waiting(t)
		if len(ids) != 1 {
			t.Fatalf("%v wait", ids)
		}
		rig.Decide(t, ids[0], true, "fine")
		got, last := ann.send("tools/call", call), ""
		for range rounds {
			if got.text("resultType") != "input_required" {
				t.Fatalf("no question: %s", got.raw)
			}
			last = call + `,"inputResponses":{"sure":{"action":"accept","content":{}}},"requestState":` + string(got.Result["requestState"])
			got = ann.send("tools/call", last)
		}
		if !strings.Contains(got.raw, `{"paid":true}`) || paid.Load() != before+1 || len(rig.Waiting(t)) != 0 {
			t.Errorf("%s: it ran %d times, %v wait: %s", tool, paid.Load()-before, rig.Waiting(t), got.raw)
		}
		if again := ann.send("tools/call", last).raw; !strings.Contains(again, "used before") || paid.Load() != before+1 {
			t.Errorf("%s: a round counts twice: %s", tool, again)
		}
		if again := ann.send("tools/call", call).raw; !strings.Contains(again, "APPROVAL_REQUIRED") {
			t.Errorf("%s: an approval is for two calls: %s", tool, again)
		}
		for _, id := range rig.Waiting(t) {
			rig.Decide(t, id, false, "once is enough")
		}
	}
}

// TestAnotherReplicaRunsANativeCallThatWaited, once it was approved.
func TestAnotherReplicaRunsANativeCallThatWaited(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{Configure: everything}, mcptest.NativeTool{
		Declared: mcptest.JSONTool("transfer", "Pays.", `{"type":"object"}`, ""),
		Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			return mcptest.Success(fmt.Sprintf(`{"sent":%s,"meta":%s,"revision":%q}`, call.GetArgumentsJson(), call.GetMetaJson(), call.GetContext().GetProtocolVersion())), nil
		},
	})
	ann.send("tools/call", `"name":"transfer","arguments":{"amount":1}`)
	ids := rig.Waiting(t)
	rig.Decide(t, ids[0], true, "fine")
	stored, err := proto.Marshal(&statev1.TaskCall{
		Tool: "desk.transfer", Procedure: "/outrigger.v1.ToolService/CallTool", Wire: []byte(`{"amount":1}`), Caller: "ann", Approval: ids[0],
		Native: &statev1.NativeCall{MetaJson: []byte(`{"a":1}`), Context: &outriggerv1.RequestContext{ProtocolVersion: "2026-07-28"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := rig.TakeOver(t.Context(), stored)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"sent":{"amount":1},"meta":{"a":1},"revision":"2026-07-28"}`; string(result.GetDataJson()) != want {
		t.Errorf("%s", result.GetDataJson())
	}
	if _, err := rig.TakeOver(t.Context(), stored); err == nil {
		t.Error("it runs twice")
	}
}

// TestAnotherReplicaBeginsAnOperationThatWaited: it waits on, begins the operation when it is approved, and ends with its result. The next
// replica begins no second one.
func TestAnotherReplicaBeginsAnOperationThatWaited(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		videos, rig, ann := studio(t, both(replicaOf("", time.Minute), everything))
		videos.OnBegin(func(name string) { videos.Finish(name, videos.Video("videos/1", 3)) })
		ann.capabilities = ""
		ann.send("tools/call", importVideo)
		ids := rig.Waiting(t)
		if len(ids) != 1 {
			t.Fatalf("%v wait", ids)
		}
		stored, err := proto.Marshal(&statev1.TaskCall{
			Tool: "studio.import_video", Procedure: operationtest.Procedure + "ImportVideo", Wire: wireText(nil, 1, "x"), Caller: "ann", Approval: ids[0],
		})
		if err != nil {
			t.Fatal(err)
		}
		var result *outriggerv1.ToolResult
		ended := make(chan error, 1)
		go func() {
			var err error
			result, err = rig.TakeOver(t.Context(), stored)
			ended <- err
		}()
		rig.Decide(t, ids[0], approve, "as agreed")
		err = <-ended
		if approve && (err != nil || string(result.GetDataJson()) != `{"name":"videos/1","seconds":3}`) {
			t.Errorf("%v: %s", err, result.GetDataJson())
		}
		if !approve && (err == nil || !strings.Contains(err.Error(), "denied by local: as agreed")) {
			t.Errorf("denied: %v", err)
		}
		if _, err := rig.TakeOver(t.Context(), stored); err == nil {
			t.Error("it runs twice")
		}
		if n := videos.Calls("ImportVideo"); (n == 1) != approve || n > 1 {
			t.Errorf("approved %t: it began %d times", approve, n)
		}
	}
}

// TestWhatCannotWait: streams and reads of resources are refused by a rule that asks for approval.
func TestWhatCannotWait(t *testing.T) {
	t.Parallel()
	all := rule("all", "approve", "true", "*")
	all.Approve = &configv1.PolicyApproval{Callers: []string{"local"}}
	rig := mcptest.Start(t, mcptest.Options{Configure: ruled(all)})
	for _, one := range rig.Live.Current().Tools() {
		if !one.TakesStream() {
			continue
		}
		got := rig.Handle(t.Context(), toolCall(rig, one.Name, `{"items":[{}]}`))
		if got.Err == nil || got.Err.Code != errmap.PermissionDenied && got.Err.Code != errmap.InvalidToolInput {
			t.Errorf("%s: %v", one.Name, got.Err)
		}
	}
	for _, uri := range []string{"lagoon://orders/1001", "lagoon://vehicles/1"} {
		got := rig.Handle(t.Context(), &mcptest.Call{Question: &outriggerv1.ReadResourceRequest{Uri: uri}})
		if got.Err == nil || got.Err.Code != errmap.PermissionDenied {
			t.Errorf("%s: %v", uri, got.Err)
		}
	}
	if n := len(rig.Waiting(t)); n > 0 {
		t.Errorf("%d calls wait", n)
	}
}

// TestAnApprovedCallThatMayNotRun: a rule that denies wins, whatever others approved.
func TestAnApprovedCallThatMayNotRun(t *testing.T) {
	t.Parallel()
	g := newGated(t, ruled(approved(nil), rule("no", "deny", `args.order_id == 1001u`, "fleet.cancel_order"), rule("yes", "allow", "false", "fleet.cancel_order")))
	if _, got := askRPC(t, g, `{"name":"fleet.cancel_order","arguments":{"orderId":"1001"}}`); got.Error.Data.Code != string(errmap.PermissionDenied) {
		t.Errorf("%+v", got)
	}
	if _, got := askRPC(t, g, `{"name":"fleet.cancel_order","arguments":{"orderId":"1002"}}`); got.Error.Data.Code != string(errmap.ApprovalRequired) {
		t.Errorf("%+v", got)
	}
}

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	got, _, found := strings.Cut(rest, to)
	if !ok || !found {
		t.Fatalf("no %s: %s", from, text)
	}
	return got
}

// TestAPreviewThatIsWithheldIsShownAsThat: an approver who does not see all that the tool's messages can have learns that. Others see what
// the requester saw.
func TestAPreviewThatIsWithheldIsShownAsThat(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "operators.yaml")
	entry := func(name, classes string) string {
		return fmt.Sprintf("- {name: %s, role: operate, groups: [desk], classes: [%s], token_sha256: ['%x']}\n", name, classes, sha256.Sum256([]byte(name+strings.Repeat("x", 32))))
	}
	if err := os.WriteFile(file, []byte("operators:\n"+entry("olive", "pii")+entry("otto", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	all := rule("all", "approve", "true", "shop.*")
	all.Approve = &configv1.PolicyApproval{Groups: []string{"desk"}}
	s := &shopkeeper{}
	ann := s.open(t, both(ruled(all), func(c *configv1.Config) {
		c.Listeners.AdminTokensFile = file
		c.Access.Policy.Classes = []*configv1.FieldClass{{Name: "pii", Groups: []string{"support"}}}
		c.Access.Policy.Fields = map[string]string{"shop.v1.Said.text": "pii"}
	}))
	ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`)
	id, operated := ann.bridge.Waiting(t)[0], ann.bridge.Operators(t)
	for name, want := range map[string]string{"olive": `"preview":"{}"`, "otto": "The preview is not shown: it may say what you may not see."} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operated+"/approvals/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+name+strings.Repeat("x", 32))
		resp, err := mcptest.Client(t, 1).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := string(raw); !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
}
