// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// scenario is one request, and what has to come of it.
type scenario struct {
	name string
	ask  ask
	// gives is a part of the answer. The goldens would not tell that a scenario tests something else than its name says.
	gives string
	// givenUp: the caller gives up when the service has the call.
	givenUp bool
	// bare: the message has no context, alone: neither has the connection.
	bare, alone bool
	// unreachable: connections to the backend fail.
	unreachable bool
}

// scenarios are for edges with JSON-RPC.
func scenarios() []scenario {
	call := func(name, tool, args, gives string) scenario {
		return scenario{name: name, ask: ask{tool: tool, args: args}, gives: gives}
	}
	out := []scenario{
		call("success", "lab.echo", `{"nonce":"one"}`, `one`),
		call("tool error", "lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`, `"isError":true`),
		call("invalid arguments", "lab.echo", `{"signed":"many"}`, `INVALID_TOOL_INPUT`),
		call("unknown tool", "lab.dance", `{}`, `lab`),
		{name: "unknown method", ask: ask{method: "tools/dance"}, gives: "-32601"},
		{name: "parse error", ask: ask{raw: `{"jsonrpc":"2.0","id":"p","method":`}, gives: "-32700"},
		{name: "invalid request", ask: ask{raw: `{"jsonrpc":"1.0","id":"i","method":"tools/list"}`}, gives: "-32600"},
		{name: "list", ask: ask{method: "tools/list"}, gives: "lab"},
		call("unavailable by itself", "lab.fail", `{"code":"FAIL_CODE_UNAVAILABLE"}`, `unavailable`),
		{name: "unavailable with retries", ask: ask{tool: "lab.echo", args: `{}`}, unreachable: true, gives: "UNAVAILABLE"},
		call("timeout", "lab.sleep", `{"duration":"30s"}`, `TIMEOUT`),
		call("server stream", "fleet.watch_vehicles", `{"vehicleIds":["101"],"rounds":2,"interval":"0s"}`, `items`),
		{name: "cancelled", ask: ask{tool: "lab.sleep", args: `{"duration":"30s"}`}, givenUp: true},
		{name: "context in the headers only", ask: ask{tool: "lab.echo", args: `{}`}, bare: true, gives: `nonce`},
		{name: "no context", ask: ask{tool: "lab.echo", args: `{}`}, alone: true, gives: `nonce`},
	}
	for i := range out {
		out[i].ask.id = strings.ReplaceAll(out[i].name, " ", "-")
	}
	return out
}

// play runs scenarios and returns who began which trace.
func play(t *testing.T, r *rig, edge string, w wire, all []scenario) map[string]origin {
	t.Helper()
	origins := map[string]origin{}
	for _, s := range all {
		o := originOf(edge, s.name)
		if s.bare || s.alone {
			o.message = ""
		}
		if s.alone {
			o.connection = ""
		}
		s.ask.origin, origins[s.name] = o, o
		got := s.play(t, r, w)
		if !s.givenUp && !strings.Contains(got, s.gives) {
			t.Errorf("%s: %s: got %s, want %s", edge, s.name, got, s.gives)
		}
	}
	return origins
}

func (s *scenario) play(t *testing.T, r *rig, w wire) string {
	t.Helper()
	if s.unreachable {
		r.relay.Cut(t)
		defer r.relay.Mend(t)
	}
	if !s.givenUp {
		return w.send(t.Context(), t, s.ask)
	}
	drain(r.backend.Asleep())
	drain(r.backend.GivenUp())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan string, 1)
	go func() { done <- w.send(ctx, t, s.ask) }()
	testkit.Receive(t, "the call at the service", r.backend.Asleep())
	cancel()
	testkit.Receive(t, "the end of the call at the service", r.backend.GivenUp())
	return <-done
}

func drain(events <-chan struct{}) {
	for len(events) > 0 {
		<-events
	}
}
