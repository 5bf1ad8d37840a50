// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestBatch: a span for each entry, with the parent of each.
func TestBatch(t *testing.T) {
	s := newStory(t, "rpc-batch")
	server := s.serve(t)
	w := dialHTTP(t, server, "/rpc", caller.Canonical)
	entries := []ask{
		s.tell("a call", ask{tool: "lab.echo", args: `{"nonce":"one"}`}),
		s.tell("an unknown tool", ask{tool: "lab.dance", args: `{}`}),
		s.tell("a notification", ask{method: "notifications/cancelled", params: `"requestId":"nothing"`}),
		{raw: `{"jsonrpc":"2.0","id":"none"}`}, // which has no context but that of the batch
		s.tell("another call", ask{tool: "lab.fail", args: `{"code":"FAIL_CODE_INTERNAL"}`}),
	}
	texts := []string{}
	for _, e := range entries {
		texts = append(texts, e.text(w.dialect))
	}
	batch := s.tell("the batch", ask{raw: "[" + strings.Join(texts, ",") + "]"})
	got := w.send(t.Context(), t, batch)
	for _, want := range []string{"one", "a-call", "an-unknown-tool", "-32600", "another-call"} {
		if !strings.Contains(got, want) {
			t.Errorf("the batch: no %s in %s", want, got)
		}
	}
	w.client.CloseIdleConnections()
	s.ends(t, server)
}

// TestTask: what asks for a task has its own trace, which is linked to the call that began it.
func TestTask(t *testing.T) {
	s := newStory(t, "task")
	server := s.serve(t)
	w := dialHTTP(t, server, "/mcp", caller.Modern)
	const able = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	begun := s.says(t, w, "the call", ask{tool: "lab.sleep", args: `{"duration":"3s","nonce":"slept"}`, capabilities: able}, `"resultType":"task"`)
	id := member(t, begun, "result", "taskId")
	get := ask{method: "tasks/get", params: `"taskId":` + id, capabilities: able}
	s.says(t, w, "the task at work", get, `"working"`)
	poll := get
	poll.origin, poll.id = originOf(s.name, "poll"), "poll"
	testkit.Until(t, "the result", func() bool { return strings.Contains(w.send(t.Context(), t, poll), `"completed"`) })
	s.says(t, w, "the task at its end", get, `slept`)
	w.client.CloseIdleConnections()
	s.ends(t, server)
}

const (
	asksUser  = `{"elicitation":{"form":{}}}`
	cancelled = `{"orderId":"9007199254740999","reason":"moved"}`
	agrees    = `{"action":"accept","content":{"confirm":true}}`
)

// TestConsent: the call that comes again with the user's answer is linked to the one that asked.
func TestConsent(t *testing.T) {
	s := newStory(t, "consent-modern")
	server := s.serve(t, "--destructive", "confirm")
	w := dialHTTP(t, server, "/mcp", caller.Modern)
	asked := s.says(t, w, "the call", ask{tool: "fleet.cancel_order", args: cancelled, capabilities: asksUser}, "input_required")
	state := member(t, asked, "result", "requestState")
	s.says(t, w, "the call with the consent", ask{
		tool: "fleet.cancel_order", args: cancelled, capabilities: asksUser,
		params: `"inputResponses":{"outrigger_confirm":` + agrees + `},"requestState":` + state,
	}, `"complete"`)
	w.client.CloseIdleConnections()
	s.ends(t, server)
}

// TestLegacyConsent: the question has a span in the call; a stream that is resumed is linked to the call.
func TestLegacyConsent(t *testing.T) {
	s := newStory(t, "consent-legacy")
	server := s.serve(t, "--destructive", "confirm")
	w := dialHTTP(t, server, "/mcp", caller.Legacy)
	w.open(t, asksUser)
	ask1 := s.tell("the call", ask{tool: "fleet.cancel_order", args: cancelled})
	call := w.stream(t, ask1, "")
	w.answer(t, s, "the answer", call.next(t))
	if got := call.next(t); !strings.Contains(got, `"id":"the-call"`) {
		t.Errorf("got %s", got)
	}
	call.close()
	broken := w.stream(t, s.tell("a call whose connection breaks", ask{tool: "fleet.cancel_order", args: cancelled}), "")
	question := broken.next(t)
	broken.close()
	w.answer(t, s, "the answer to it", question)
	resumed := w.stream(t, s.tell("the resumed stream", ask{method: listens}), broken.last)
	if got := resumed.next(t); !strings.Contains(got, `"id":"a-call-whose-connection-breaks"`) {
		t.Errorf("got %s", got)
	}
	resumed.close()
	w.client.CloseIdleConnections()
	s.ends(t, server)
}

// answer posts what the user said to an elicitation/create.
func (w *overHTTP) answer(t *testing.T, s *story, name, question string) {
	t.Helper()
	if !strings.Contains(question, "elicitation/create") {
		t.Fatalf("got %s", question)
	}
	reply := s.tell(name, ask{raw: `{"jsonrpc":"2.0","id":` + member(t, question, "id") + `,"result":` + agrees + `}`})
	if got := w.send(t.Context(), t, reply); got != "" {
		t.Fatalf("%s: got %s", name, got)
	}
}

// TestUnauthorized: what has no credentials has a span, on each edge.
func TestUnauthorized(t *testing.T) {
	s := newStory(t, "unauthorized")
	server := s.serve(t, "--tokens", tokens(t))
	for _, e := range edges() {
		w := s.dial(t, e, server)
		s.refused(t, w, "without a token", echoes, "UNAUTHENTICATED", "unauthenticated")
		if e.typed {
			s.refused(t, w, "a stream without a token", watches, "", "unauthenticated")
		}
		if over, ok := w.wire.(*overHTTP); ok {
			over.bearer = "wrong"
			s.refused(t, w, "with a wrong token", echoes, "UNAUTHENTICATED", "")
		}
	}
	s.ends(t, server)
}

// TestMalformedCredentials: with OAuth, they have an answer of their own, for which no issuer is asked.
func TestMalformedCredentials(t *testing.T) {
	s := newStory(t, "malformed-credentials")
	server := s.serve(t, "--oauth-issuer", "http://"+testkit.Dead(t), "--oauth-resource", "http://127.0.0.1")
	for _, e := range edges() {
		w := s.dial(t, e, server)
		if over, ok := w.wire.(*overHTTP); ok {
			over.bearer = "two words"
			s.refused(t, w, "with malformed credentials", echoes, "INVALID_AUTHORIZATION", "")
		}
	}
	s.ends(t, server)
}

// tokens is a file with one caller.
func tokens(t *testing.T) string {
	t.Helper()
	entry, err := exec.Command(built.binary, "token", "planner").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, append([]byte("callers:\n"), entry...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
