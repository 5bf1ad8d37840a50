// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestStartupBeforeTheBackend starts the sidecar first. It lives, is not ready
// and says why, and answers calls with UNAVAILABLE; when the backend comes, it
// becomes ready by itself.
func TestStartupBeforeTheBackend(t *testing.T) {
	t.Parallel()
	addr := testkit.Reserved(t)
	args := []string{"--backend", "grpc://" + addr, "--catalog-wait", "300ms"}
	server := sidecar.Serve(t, built.binary, args...)
	if status, body := server.Probe(t, "/livez"); status != http.StatusOK {
		t.Errorf("/livez: %d %s", status, body)
	}
	testkit.Until(t, "/readyz is 503 and names the backend", func() bool {
		status, body := server.Probe(t, "/readyz?verbose")
		return status == http.StatusServiceUnavailable && strings.Contains(body, addr)
	})
	var agents []caller.Agent
	var edges []caller.Edge
	for _, edge := range caller.Edges() {
		// The SDK gives up when it cannot open a session.
		if strings.HasPrefix(edge.Name, "sdk-") {
			continue
		}
		edges = append(edges, edge)
		agents = append(agents, edge.Dial(t, target(server, args...)))
	}
	call := caller.Call{ID: `"early"`, Tool: toolEcho, Procedure: procEcho, Args: `{"nonce":"n"}`}
	var asking sync.WaitGroup
	for i, agent := range agents {
		asking.Go(func() {
			got := caller.One(t.Context(), agent, call)
			if got.Fault == nil || got.Fault.Code != "UNAVAILABLE" {
				t.Errorf("%s: before the backend: %v; %v, want UNAVAILABLE", edges[i].Name, got.Err, got.Fault)
			}
		})
	}
	asking.Wait()

	peer.GRPCAt(t, addr)
	testkit.Until(t, "/readyz is 200", func() bool {
		status, _ := server.Probe(t, "/readyz")
		return status == http.StatusOK
	})
	for i, agent := range agents {
		// Its own process becomes ready in its own time.
		testkit.Until(t, edges[i].Name+" works", func() bool {
			got := caller.One(t.Context(), agent, call)
			return got.Err == nil && got.Fault == nil
		})
		agent.Close()
	}
	if status, body := server.Probe(t, "/startupz"); status != http.StatusOK {
		t.Errorf("/startupz: %d %s", status, body)
	}
}

// TestBackendGoesAndComes ends the backend: calls are UNAVAILABLE, the tools
// stay, and calls work again when it is back.
func TestBackendGoesAndComes(t *testing.T) {
	t.Parallel()
	addr := testkit.Reserved(t)
	lab := peer.GRPCAt(t, addr)
	server := serve(t, "--backend", lab.URL)
	agent := caller.Find(t, "rpc").Dial(t, target(server))
	defer agent.Close()
	call := caller.Call{ID: `"x"`, Tool: toolEcho, Args: `{"nonce":"n"}`}
	if got := caller.One(t.Context(), agent, call); got.Err != nil || got.Fault != nil {
		t.Fatalf("at first: %v; %v", got.Err, got.Fault)
	}
	lab.Stop()
	testkit.Until(t, "calls are UNAVAILABLE", func() bool {
		got := caller.One(t.Context(), agent, call)
		return got.Fault != nil && got.Fault.Code == "UNAVAILABLE"
	})
	peer.GRPCAt(t, addr)
	testkit.Until(t, "calls work again", func() bool {
		got := caller.One(t.Context(), agent, call)
		return got.Err == nil && got.Fault == nil
	})
}

// TestBackendKilledInMidCall cuts the backend off while it works: the outcome is
// unknown, and every caller learns it.
func TestBackendKilledInMidCall(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL)
	edges := slices.DeleteFunc(caller.Edges(), func(e caller.Edge) bool { return e.Process })
	agents := make([]caller.Agent, len(edges))
	for i, edge := range edges {
		agents[i] = edge.Dial(t, target(server))
	}
	var running sync.WaitGroup
	for i, agent := range agents {
		running.Go(func() {
			defer agent.Close()
			got := caller.One(t.Context(), agent, sleepCall("cut", time.Minute))
			if got.Fault == nil || got.Fault.Code != "TRANSPORT_ERROR" {
				t.Errorf("%s: %v; %v, want TRANSPORT_ERROR", edges[i].Name, got.Err, got.Fault)
			}
		})
	}
	testkit.Until(t, "all calls reach the backend", func() bool { return lab.Calls() == int64(len(edges)) })
	lab.Stop()
	running.Wait()
}
