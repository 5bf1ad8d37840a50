// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// drain runs `sidecar drain` and returns its exit code and what it said.
func drain(t *testing.T, address string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built.binary, append([]string{"drain", "--admin", address}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestDrainCommand: the command returns when the call in flight is answered and the sidecar ends.
func TestDrainCommand(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL)
	address := strings.TrimPrefix(server.AdminURL(""), "http://")
	agent, other := caller.Find(t, "rpc").Dial(t, target(server)), caller.Find(t, "rpc").Dial(t, target(server))
	defer agent.Close()
	defer other.Close()
	done := make(chan caller.Answer, 1)
	go func() { done <- caller.One(t.Context(), agent, sleepCall("last", time.Minute)) }()
	testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		testkit.Until(t, "readiness ends", func() bool { return refused(t, other) })
		lab.Wake()
	}()
	if code, text := drain(t, address, "--timeout", "60s"); code != 0 || !strings.Contains(text, "drained") {
		t.Errorf("exit code %d, %s", code, text)
	}
	<-woken
	if got := <-done; got.Err != nil || got.Fault != nil {
		t.Errorf("the call in flight gets %v; %v", got.Err, got.Fault)
	}
	if code := server.Wait(t); code != 0 {
		t.Errorf("the sidecar's exit code is %d", code)
	}
}

// TestABackendThatIsAway: calls fail, then are held back, and readiness ends.
// Without another call the sidecar finds out that the backend is back.
func TestABackendThatIsAway(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL)
	agent := caller.Find(t, "rpc").Dial(t, target(server))
	defer agent.Close()
	call := func() caller.Answer { return caller.One(t.Context(), agent, sleepCall("x", time.Millisecond)) }
	if got := call(); got.Err != nil || got.Fault != nil {
		t.Fatalf("%v; %v", got.Err, got.Fault)
	}
	// A tool's own failures change nothing.
	for range 40 {
		caller.One(t.Context(), agent, caller.Call{ID: `"f"`, Tool: toolFail, Procedure: procFail, Args: `{"code":"FAIL_CODE_UNAVAILABLE"}`})
	}
	if status, text := server.Probe(t, "/readyz?verbose"); status != http.StatusOK || !strings.Contains(text, "breaker closed") {
		t.Errorf("after a tool's own failures: %d %s", status, text)
	}
	lab.Stop()
	testkit.Until(t, "readiness ends", func() bool {
		if got := call(); got.Fault == nil {
			return false
		}
		status, text := server.Probe(t, "/readyz?verbose")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "breaker open")
	})
	peer.GRPCAt(t, strings.TrimPrefix(lab.URL, "grpc://"))
	testkit.Until(t, "readiness comes back without a call", func() bool {
		status, _ := server.Probe(t, "/readyz")
		return status == http.StatusOK
	})
	if got := call(); got.Err != nil || got.Fault != nil {
		t.Errorf("%v; %v", got.Err, got.Fault)
	}
}

// TestDeadlinesReachTheBackend asks the backend how much time a call has left.
func TestDeadlinesReachTheBackend(t *testing.T) {
	t.Parallel()
	const configured, callers = 40 * time.Minute, 20 * time.Minute
	lab := peer.GRPC(t)
	args := []string{"--backend", lab.URL, "--timeout", configured.String()}
	server := serve(t, args...)
	for _, edge := range caller.Edges() {
		agent := edge.Dial(t, target(server, args...))
		if got := caller.One(t.Context(), agent, sleepCall("d", time.Millisecond)); got.Err != nil || got.Fault != nil {
			t.Errorf("%s: %v; %v", edge.Name, got.Err, got.Fault)
		}
		switch left := lab.Left(); {
		case strings.HasPrefix(edge.Name, "typed-"):
			if left != 0 { // the default is the sidecar's own there
				t.Errorf("%s: the backend has %v left, and its caller set no deadline", edge.Name, left)
			}
		case left > configured || left < configured/2:
			t.Errorf("%s: the backend has %v left, want up to %v", edge.Name, left, configured)
		}
		if strings.HasPrefix(edge.Name, "typed-") || strings.HasPrefix(edge.Name, "tool-") {
			ctx, cancel := context.WithTimeout(t.Context(), callers)
			caller.One(ctx, agent, sleepCall("c", time.Millisecond))
			cancel()
			if left := lab.Left(); left > callers || left < callers/2 {
				t.Errorf("%s: the backend has %v left, the caller %v", edge.Name, left, callers)
			}
		}
		agent.Close()
	}
}
