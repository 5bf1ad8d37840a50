// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// ruled is a configuration with policy rules.
func ruled(list ...*configv1.PolicyRule) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.Trust = proto.String("trusted")
		c.Access.Policy = &configv1.Policy{Rules: list}
	}
}

func rule(name, effect, when string, tools ...string) *configv1.PolicyRule {
	return &configv1.PolicyRule{Name: name, Effect: effect, When: when, Tools: tools}
}

// TestNothingGetsAroundTheRules: every way to the tool, on every edge, ends at a rule
// about it, also under another name; and with a rule that holds each leads to it.
func TestNothingGetsAroundTheRules(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]struct {
		rule  *configv1.PolicyRule
		want  errmap.Code
		calls int64
	}{
		"arguments, denied":      {rule("r", "deny", `args.order_id > 0u`, "fleet.cancel_order"), errmap.PermissionDenied, 0},
		"arguments, not allowed": {rule("r", "allow", `args.reason == "none"`, "fleet.cancel_*"), errmap.PermissionDenied, 0},
		"arguments, allowed":     {rule("r", "allow", `args.order_id > 0u && args.reason == ""`, "fleet.*"), "", 1},
		"list, denied":           {rule("r", "deny", `caller.name == ""`, "fleet.cancel_order"), errmap.PermissionDenied, 0},
		"list, not allowed":      {rule("r", "allow", `caller.name == "planner"`, "fleet.cancel_order"), errmap.PermissionDenied, 0},
		"list, allowed":          {rule("r", "allow", `tool.destructive || tool.name == "fleet.place_order"`, "fleet.*"), "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "arguments, allowed") {
				phase.rule.Tools = []string{"fleet.cancel_order"}
			}
			g := newGated(t, ruled(phase.rule))
			for _, w := range waysIn() {
				before := g.cancelled.Load()
				if got := w.ask(t, g, g.order(t)); got != phase.want {
					t.Errorf("%s: got %q, want %q", w.name, got, phase.want)
				}
				if calls := g.cancelled.Load() - before; calls != phase.calls {
					t.Errorf("%s: the backend was called %d times, want %d", w.name, calls, phase.calls)
				}
			}
			for _, w := range noWays() {
				before := g.cancelled.Load()
				if got := w.ask(t, g, g.order(t)); got == "" || g.cancelled.Load() != before {
					t.Errorf("%s: %q", w.name, got)
				}
			}
		})
	}
}

// TestARefusalNamesTheRule, and nothing of its text, in every vocabulary.
func TestARefusalNamesTheRule(t *testing.T) {
	t.Parallel()
	g := newGated(t, ruled(rule("no-vans", "deny", `args.vehicle_id == 101 || "secret-group" in caller.groups`, "fleet.get_vehicle")))
	const call = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.get_vehicle","arguments":{"vehicleId":"101"}}}`
	for path, headers := range map[string][]string{
		"/rpc":                                nil,
		"/mcp":                                {"Mcp-Protocol-Version", "2025-11-25", "Accept", "application/json, text/event-stream"},
		"/outrigger.demo.v1.Fleet/GetVehicle": {"Connect-Protocol-Version", "1"},
	} {
		body := call
		if strings.HasPrefix(path, "/outrigger") {
			body = `{"vehicleId":"101"}`
		}
		_, raw := send(t, g.one, http.MethodPost, g.url+path, body, headers...)
		if text := string(raw); !strings.Contains(text, "no-vans") || strings.Contains(text, "secret") || strings.Contains(text, "vehicle_id") {
			t.Errorf("%s: %s", path, text)
		}
	}
	resp := g.bridge.Handle(t.Context(), toolCall(g.bridge, "fleet.get_vehicle", `{"vehicleId":"101"}`))
	if resp.Rule != "no-vans" || resp.Effect != "deny" || resp.Err == nil || len(resp.Err.Violations) != 1 {
		t.Errorf("%+v, %v", resp.Rule, resp.Err)
	}
	if resp = g.bridge.Handle(t.Context(), toolCall(g.bridge, "fleet.get_vehicle", `{"vehicleId":"102"}`)); resp.Err != nil || resp.Rule != "" {
		t.Errorf("%+v, %v", resp.Rule, resp.Err)
	}
}

// TestRulesOfOtherOperations: a resource is read by a call of its tool; tasks and streams
// begin with one; native tools have rules by their schema.
func TestRulesOfOtherOperations(t *testing.T) {
	t.Parallel()
	native := &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: &outriggerv1.Tool{Name: "desk.pay", Title: "Pay", Description: "Pays.", InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{
			InputSchemaJson: []byte(`{"type":"object","properties":{"amount":{"type":"integer"},"to":{"type":"string"}}}`),
		}},
		Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{Status: "success"}}},
	}}}
	rig := mcptest.Start(t, mcptest.Options{Native: native, Configure: ruled(
		rule("vehicles", "deny", `args.vehicle_id == 101`, "fleet.get_vehicle"),
		rule("short-sleep", "allow", `args.duration <= duration("1s")`, "lab.sleep"),
		rule("watch", "allow", `args.rounds == 1`, "fleet.watch_vehicles"),
		rule("pay", "allow", `has(args.amount) && args.amount < 100`, "desk.pay"),
	)})
	call := func(tool, arguments string, capable bool) *mcptest.Outcome {
		req := toolCall(rig, tool, arguments)
		if capable {
			req.Tasks = true
		}
		return rig.Handle(t.Context(), req)
	}
	for _, tt := range []struct {
		tool, arguments string
		may             bool
	}{
		{"lab.sleep", `{"duration":"0.001s"}`, true},
		{"lab.sleep", `{"duration":"2s"}`, false},
		{"fleet.watch_vehicles", `{"rounds":1,"interval":"0s"}`, true},
		{"fleet.watch_vehicles", `{"rounds":2,"interval":"0s"}`, false},
		{"desk.pay", `{"amount":99}`, true},
		{"desk.pay", `{"amount":9.9e1}`, true},
		{"desk.pay", `{"amount":100}`, false},
		{"desk.pay", `{}`, false},
	} {
		for _, capable := range []bool{false, true} {
			resp := call(tt.tool, tt.arguments, capable)
			if (resp.Err == nil) != tt.may || resp.Err != nil && resp.Err.Code != errmap.PermissionDenied || resp.Rule == "" {
				t.Errorf("%s %s: %v, %+v", tt.tool, tt.arguments, resp.Err, resp.Rule)
			}
		}
	}
	for uri, may := range map[string]bool{"lagoon://vehicles/101": false, "lagoon://vehicles/102": true} {
		resp := rig.Handle(t.Context(), &mcptest.Call{
			Origin: rig.NewOrigin(), Question: &outriggerv1.ReadResourceRequest{Uri: uri},
		})
		if (resp.Err == nil) != may || !may && (resp.Err.Code != errmap.PermissionDenied || resp.Rule != "vehicles") {
			t.Errorf("%s: %v, %+v", uri, resp.Err, resp.Rule)
		}
	}
}

// TestListsFollowTheRules: what a rule without args hides from a caller is not listed, and
// callers with different outcomes see different lists.
func TestListsFollowTheRules(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: ruled(
		rule("drivers", "allow", `"drivers" in caller.groups`, "fleet.plan_route"),
		rule("own-module", "deny", `!(tool.module in caller.groups) && caller.name != ""`, "lab.*"),
		rule("small", "allow", `args.order_id < 5u`, "fleet.get_order"),
	)})
	caller := func(name string, groups ...string) context.Context {
		return mcptest.Of(t, outrigger.Grant{Name: name, Tools: []string{"*"}}, groups...)
	}
	for i, tt := range []struct {
		who        context.Context //nolint:containedctx // of the caller
		route, lab bool
	}{
		{t.Context(), false, true},
		{caller("a"), false, false},
		{caller("b", "drivers"), true, false},
		{caller("c", "outrigger.demo.v1.Lab"), false, true},
		{caller("d", "drivers", "outrigger.demo.v1.Lab"), true, true},
		{caller("e"), false, false},
	} {
		names := rig.ToolsFor(tt.who)
		for tool, want := range map[string]bool{"fleet.plan_route": tt.route, "lab.echo": tt.lab, "fleet.get_order": true} {
			listed := slices.Contains(names, tool)
			resp := rig.Handle(tt.who, &mcptest.Call{Origin: rig.NewOrigin(), Tool: tool, Question: &outriggerv1.GetToolRequest{}})
			if listed != want || (resp.Err == nil) != want {
				t.Errorf("caller %d, %s: listed %v, %v; want %v", i, tool, listed, resp.Err, want)
			}
		}
	}
}

// TestRulesReloadUnderLoad: while rules are replaced, each call ends by the old rules or
// by the new ones, a faulty file changes nothing, and lists follow.
func TestRulesReloadUnderLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	policy := func(effect string) string {
		return "rules:\n- {name: r, tools: [lab.echo], effect: " + effect + ", when: 'args.nonce == \"a\" || caller.name == \"x\"'}\n" +
			"- {name: hide, tools: [lab.fail], effect: " + effect + ", when: 'caller.name == \"\"'}\n"
	}
	write(policy("allow"))
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Access.PolicyFile, c.ReloadInterval = file, durationpb.New(10*time.Millisecond)
	}})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			a := rig.Handle(t.Context(), toolCall(rig, "lab.echo", `{"nonce":"a"}`))
			rig.ToolsFor(t.Context())
			if a.Rule != "r" || (a.Err == nil) != (a.Effect == "allow") {
				t.Errorf("%v, %+v", a.Err, a.Rule)
				return
			}
		}
	}()
	effect := func() string {
		resp := rig.Handle(t.Context(), toolCall(rig, "lab.echo", `{"nonce":"a"}`))
		return resp.Effect
	}
	listed := func() bool {
		return slices.Contains(rig.ToolsFor(t.Context()), "lab.fail")
	}
	operators, client := rig.Operators(t), mcptest.Client(t, 1)
	refused := func() bool {
		_, raw := send(t, client, http.MethodGet, operators+"/readyz?verbose", "")
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, "reload policy") && strings.Contains(line, "refused") {
				return true
			}
		}
		return false
	}
	for _, to := range []string{"deny", "allow", "deny"} {
		write(policy(to))
		testkit.Until(t, "rules "+to, func() bool { return effect() == to && listed() == (to == "allow") })
		write("rules:\n- {name: r, tools: [lab.echo], effect: allow, when: 'args.nonce =='}\n")
		testkit.Until(t, "the faulty file was read", refused)
		if effect() != to {
			t.Errorf("a faulty file replaces the rules")
		}
	}
	close(stop)
	<-done
}
