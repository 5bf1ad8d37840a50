// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// sleepCall is a call of lab.sleep.
func sleepCall(id string, d time.Duration) caller.Call {
	return caller.Call{
		ID: strconv.Quote(id), Tool: toolSleep, Procedure: procSleep,
		Args: fmt.Sprintf(`{"duration":"%.3fs"}`, d.Seconds()),
	}
}

// TestSIGTERMDuringLoad ends the sidecar while every edge has calls in flight.
// They are answered, later ones are refused, and the process exits with 0 before
// its grace period is over. Other tests wait for it: an agent here gives up on its
// calls when the stream of its session ends, so it must not read them seconds late
// because thousands of callers share its process.
func TestSIGTERMDuringLoad(t *testing.T) {
	const (
		perEdge = 4
		nap     = 3 * time.Second
		grace   = time.Minute
	)
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL, "--grace", grace.String())
	var early, late []caller.Agent
	var edges []caller.Edge
	for _, edge := range caller.Edges() {
		if !edge.Process {
			edges = append(edges, edge)
			early = append(early, edge.Dial(t, target(server)))
			late = append(late, edge.Dial(t, target(server)))
		}
	}
	// Everybody is connected before it starts.
	for i, agent := range late {
		if a := caller.One(t.Context(), agent, sleepCall("warm", time.Millisecond)); a.Err != nil || a.Fault != nil {
			t.Fatalf("%s: %v; %v", edges[i].Name, a.Err, a.Fault)
		}
	}
	before := lab.Calls()
	answers := make([][]caller.Answer, len(edges))
	var running sync.WaitGroup
	for i, agent := range early {
		running.Go(func() {
			calls := make([]caller.Call, perEdge)
			for j := range calls {
				calls[j] = sleepCall(fmt.Sprintf("s%d", j), nap)
			}
			answers[i] = agent.CallAll(t.Context(), calls)
		})
	}
	testkit.Until(t, "all calls reach the backend", func() bool { return lab.Calls() == before+int64(len(edges)*perEdge) })

	told := time.Now()
	server.Signal(t, syscall.SIGTERM)
	testkit.Until(t, "readiness ends", func() bool { return refused(t, late[0]) })
	var refusing sync.WaitGroup
	for i, agent := range late {
		refusing.Go(func() {
			got := caller.One(t.Context(), agent, sleepCall("late", time.Millisecond))
			if got.Fault == nil || got.Fault.Code != "UNAVAILABLE" {
				t.Errorf("%s: a call during the drain gets %v; %v, want UNAVAILABLE", edges[i].Name, got.Err, got.Fault)
			}
		})
	}
	refusing.Wait()
	running.Wait()
	for i, edge := range edges {
		for j, got := range answers[i] {
			if got.Err != nil || got.Fault != nil || len(got.Data) == 0 {
				t.Errorf("%s: call %d in flight gets %v; %v", edge.Name, j, got.Err, got.Fault)
			}
		}
		early[i].Close()
		late[i].Close()
	}
	if code := server.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(told); took > grace {
		t.Errorf("the drain took %s, the grace period is %s", took, grace)
	}
}

// refused reports whether a new call is refused.
func refused(t *testing.T, agent caller.Agent) bool {
	t.Helper()
	return caller.One(t.Context(), agent, sleepCall("probe", time.Millisecond)).Fault != nil
}

// TestGraceEndsLongCalls gives calls less time than they need. They get an
// answer all the same.
func TestGraceEndsLongCalls(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL, "--grace", "500ms", "--timeout", "60s")
	agent := caller.Find(t, "rpc").Dial(t, target(server))
	defer agent.Close()
	done := make(chan caller.Answer, 1)
	go func() { done <- caller.One(t.Context(), agent, sleepCall("long", time.Minute)) }()
	testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
	server.Signal(t, syscall.SIGTERM)
	got := <-done
	if got.Fault == nil || got.Fault.Code != "UNAVAILABLE" {
		t.Errorf("got %v; %v, want UNAVAILABLE", got.Err, got.Fault)
	}
	if code := server.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	testkit.Until(t, "the backend's call is cancelled", func() bool { return lab.Cancelled() == 1 })
}

// TestStdioEnds ends the conversation in both ways: what is in flight is
// answered, and the exit code is 0.
func TestStdioEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *caller.StdioAgent){
		"end of input": func(_ *testing.T, a *caller.StdioAgent) { a.Process().CloseInput() },
		"SIGTERM":      func(t *testing.T, a *caller.StdioAgent) { t.Helper(); a.Process().Signal(t, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := peer.GRPC(t)
			agent := caller.DialStdio(t, caller.Target{Binary: built.binary, Args: []string{"--backend", lab.URL}}, caller.Canonical)
			defer agent.Close()
			done := make(chan caller.Answer, 1)
			go func() { done <- caller.One(t.Context(), agent, sleepCall("last", time.Second)) }()
			testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
			end(t, agent)
			if got := <-done; got.Err != nil || got.Fault != nil {
				t.Errorf("the call in flight gets %v; %v", got.Err, got.Fault)
			}
			if code := agent.Process().Wait(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}

// TestClosedStdout has a peer that no longer reads: the process ends cleanly,
// and what it had asked of the backend ends with it.
func TestClosedStdout(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	pipe := sidecar.Deaf(t, built.binary, "--backend", lab.URL)
	pipe.MustSend(t, caller.Canonical.Request(sleepCall("long", time.Minute)))
	testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
	pipe.MustSend(t, `{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}`)
	if code := pipe.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	testkit.Until(t, "the backend's call is cancelled", func() bool { return lab.Cancelled() == 1 })
}

// TestAStreamOutlastsTheLastAnswer: a client reads the answers to its calls and
// the stream of its session from different connections, and may give up on all
// calls when the stream ends. It has a moment to take the answer first.
func TestAStreamOutlastsTheLastAnswer(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL, "--grace", "15s")
	client := caller.Client(false)
	t.Cleanup(client.CloseIdleConnections)
	send := func(method, session, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+server.Addr()+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		if method == http.MethodGet {
			req.Header.Set("Accept", "text/event-stream")
		}
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	opened := send(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if opened == nil {
		t.FailNow()
	}
	session := opened.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, opened.Body)
	stream := send(http.MethodGet, session, "")
	if session == "" || stream == nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("no session %q, or no stream", session)
	}
	ended := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, stream.Body)
		ended <- time.Now()
	}()
	answered := make(chan struct{})
	go func() {
		if res := send(http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"1s"}}}`); res != nil {
			if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), `"isError":false`) {
				t.Errorf("the call in flight gets %s, %v", text, err)
			}
		}
		close(answered)
	}()
	testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
	server.Signal(t, syscall.SIGTERM)
	testkit.Receive(t, "the answer", answered)
	// The sidecar says when the answer was there; the client may read it later, and the end of the stream.
	call := server.Log(t, "the call", func(e sidecar.Entry) bool { return e.Message == "call" })
	ts, _ := call.Fields["ts"].(string)
	last, err := time.Parse(time.RFC3339Nano, ts)
	if err != nil {
		t.Fatal(err)
	}
	if end := testkit.Receive(t, "the end of the stream", ended); end.Sub(last) < time.Second {
		t.Errorf("the stream of the session ends %v after the last answer", end.Sub(last))
	}
	if code := server.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
