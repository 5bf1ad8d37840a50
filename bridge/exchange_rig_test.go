// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// What holds for unary calls holds for tools that take a stream. Each test has a whole sidecar in front of the demo service.

// TestRulesDecideAboutEachItem: a rule sees one message as args. It is asked about every one of them, and about a stream
// without any as about an empty message.
func TestRulesDecideAboutEachItem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what      string
		rule      *configv1.PolicyRule
		arguments string
		want      errmap.Code
		sent      int
	}{
		{"denied at the third", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[{"nonce":"a"},{"nonce":"b"},{"nonce":"bad"}]}`, errmap.PermissionDenied, 2},
		{"denied at the first", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[{"nonce":"bad"},{"nonce":"b"}]}`, errmap.PermissionDenied, -1},
		{"nothing to deny", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[{"nonce":"a"}]}`, "", -1},
		{"not all are allowed", rule("r", "allow", `args.nonce == "good"`, "lab.relay"), `{"items":[{"nonce":"good"},{"nonce":"a"}]}`, errmap.PermissionDenied, 1},
		{"all are allowed", rule("r", "allow", `args.nonce == "good"`, "lab.relay"), `{"items":[{"nonce":"good"},{"nonce":"good"}]}`, "", -1},
		{"an empty stream is not allowed", rule("r", "allow", `args.nonce == "good"`, "lab.relay"), `{"items":[]}`, errmap.PermissionDenied, -1},
		{"an empty stream is not denied", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[]}`, "", -1},
	} {
		rig := mcptest.Start(t, mcptest.Options{Configure: ruled(tc.rule)})
		resp := rig.Bridge.Handle(t.Context(), toolCall(rig.Bridge, "lab.relay", tc.arguments))
		if codeOf(resp) != tc.want || sentOf(resp) != tc.sent {
			t.Errorf("%s: %v, %d sent", tc.what, resp.Err, sentOf(resp))
		}
		if wantRule := tc.want != "" && tc.rule.GetEffect() == "deny"; wantRule && resp.Decision.Rule != "r" {
			t.Errorf("%s: decided by %+v", tc.what, resp.Decision)
		}
	}
}

// TestAStreamIsHeldBackByTheGate before its arguments are looked at.
func TestAStreamIsHeldBackByTheGate(t *testing.T) {
	t.Parallel()
	yes := true
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Relay", Tool: &configv1.ToolOptions{Destructive: &yes, ReadOnly: proto.Bool(false)}})
	}})
	for _, arguments := range []string{`{"items":[]}`, `{"items":7}`} {
		if resp := rig.Bridge.Handle(t.Context(), toolCall(rig.Bridge, "lab.relay", arguments)); codeOf(resp) != errmap.DestructiveBlocked {
			t.Errorf("%s: %v", arguments, resp.Err)
		}
	}
}

// TestAStreamRunsOnAsATask, with items that outlive the request.
func TestAStreamRunsOnAsATask(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Relay", Tool: &configv1.ToolOptions{TaskSupport: "optional"}})
	}})
	arguments := []byte(`{"items":[{"nonce":"a"},{"nonce":"b"}]}`)
	call := toolCall(rig.Bridge, "lab.relay", "")
	call.Arguments.Bytes = arguments
	call.Context = &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
	resp := rig.Bridge.Handle(t.Context(), call)
	id := resp.Outcome.GetTask().GetTaskId()
	if resp.Err != nil || id == "" {
		t.Fatalf("%v %v", resp.Err, resp.Outcome)
	}
	for i := range arguments { // as an edge would use its buffer again
		arguments[i] = 'x'
	}
	testkit.Until(t, "the task ends", func() bool {
		got := rig.Bridge.Handle(t.Context(), &bridge.Request{
			Op: bridge.OpGetTask, Origin: rig.Bridge.Flights().NewOrigin(), Message: &outriggerv1.GetTaskRequest{TaskId: id}, Context: call.Context,
		})
		task, _ := got.Message.(*outriggerv1.Task)
		return task.GetStatus() == outriggerv1.TaskStatus_TASK_STATUS_COMPLETED && strings.Count(task.String(), "nonce") == 2
	})
}

// TestAStreamIsAudited once, with what was sent and without secrets.
func TestAStreamIsAudited(t *testing.T) {
	t.Parallel()
	path, configure := audited(t, func(a *configv1.Audit) { a.Payloads = true })
	rig := mcptest.Start(t, mcptest.Options{Configure: configure})
	for _, arguments := range []string{`{"items":[{"nonce":"a"}]}`, `{"items":[{"nonce":"a"},{"nonce":7}]}`} {
		rig.Bridge.Handle(t.Context(), toolCall(rig.Bridge, "lab.relay", arguments))
	}
	rig.End()
	lines := linesWith(trail(t, path), "tool", "lab.relay")
	if len(lines) != 2 || lines[0]["code"] != "OK" || lines[1]["code"] != string(errmap.InvalidToolInput) {
		t.Errorf("%v", lines)
	}
}

// TestTheRateCountsAStreamOnce, whatever the number of its items; and a call under way holds its slot.
func TestTheRateCountsAStreamOnce(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Limits.CallerRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(2)}
		c.Timeout = durationpb.New(time.Minute)
	}})
	const many = `{"items":[{},{},{},{},{},{},{},{}]}`
	for i, want := range []errmap.Code{"", "", errmap.RateLimited} {
		if resp := rig.Bridge.Handle(t.Context(), toolCall(rig.Bridge, "lab.relay", many)); codeOf(resp) != want {
			t.Errorf("call %d: %v, want %q", i, resp.Err, want)
		}
	}
}
