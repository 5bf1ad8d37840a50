// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// manyFile writes a configuration of several backends, one line of YAML each, and what else is set.
func manyFile(t *testing.T, backends []string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "many.yaml")
	text := "backends:\n"
	for _, one := range backends {
		text += "- {" + one + "}\n"
	}
	if err := os.WriteFile(path, []byte(text+strings.Join(more, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// toolsOf are the names that a sidecar lists.
func toolsOf(t *testing.T, server *sidecar.Server) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL("/rpc"), strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	_, reply := statusAndBody(t, req)
	var out []string
	for _, part := range strings.Split(reply, `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if strings.Contains(name, ".") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestSeveralBackends sends the calls of every edge to the backend whose tool was named, and none to another.
func TestSeveralBackends(t *testing.T) {
	t.Parallel()
	plain, prefixed, dead := peer.GRPC(t), peer.ConnectOnly(t), testkit.Reserved(t)
	server := serve(t, "--config", manyFile(t, []string{
		"name: plain, url: " + strconv.Quote(plain.URL),
		fmt.Sprintf("name: other, url: %q, prefix: other, descriptors: [%q]", prefixed.URL, labDescriptors(t)),
		fmt.Sprintf("name: dead, url: %q, prefix: dead, descriptors: [%q]", "grpc://"+dead, labDescriptors(t)),
	}))
	testkit.Until(t, "the tools of all three", func() bool {
		names := toolsOf(t, server)
		return slices.Contains(names, "lab.echo") && slices.Contains(names, "other.lab.echo") && slices.Contains(names, "dead.lab.echo")
	})
	for _, edge := range caller.Edges() {
		if edge.Process {
			continue
		}
		t.Run(edge.Name, func(t *testing.T) {
			isTyped := strings.HasPrefix(edge.Name, "typed")
			agent := edge.Dial(t, target(server))
			defer agent.Close()
			for _, prefix := range []string{"", "other."} {
				call, want := echoCall(edge, false, 1, 2)
				if prefix != "" && isTyped {
					continue // typed callers reach the first backend with the service
				}
				call.Tool = prefix + call.Tool
				before := [2]int64{plain.Calls(), prefixed.Calls()}
				checkEcho(t, edge, call, want, caller.One(t.Context(), agent, call))
				got := [2]int64{plain.Calls() - before[0], prefixed.Calls() - before[1]}
				if wanted := [2]int64{1, 0}; prefix == "" && got != wanted || prefix != "" && got != [2]int64{0, 1} {
					t.Errorf("%s: calls of the two backends: %v", call.Tool, got)
				}
			}
			if isTyped {
				return
			}
			call, _ := echoCall(edge, false, 1, 4)
			call.Tool = "dead." + call.Tool
			if answer := caller.One(t.Context(), agent, call); answer.Fault == nil || answer.Fault.Code != "UNAVAILABLE" {
				t.Errorf("a tool of a backend that is away: %+v", answer)
			}
		})
	}
	status, body := server.Probe(t, "/readyz?verbose")
	if status != 200 || !strings.Contains(body, "2 of 3 backends can be used; not dead") {
		t.Errorf("/readyz: %d\n%s", status, body)
	}
}

// TestReadinessOfSeveralBackends asks for any, for all, and for one of them.
func TestReadinessOfSeveralBackends(t *testing.T) {
	t.Parallel()
	here, away := peer.GRPC(t), testkit.Reserved(t)
	backends := []string{"name: here, url: " + strconv.Quote(here.URL), fmt.Sprintf("name: away, url: %q, prefix: away", "grpc://"+away)}
	for wanted, status := range map[string]int{"[any]": 200, "[all]": 503, "[here]": 200, "[away]": 503} {
		t.Run(wanted, func(t *testing.T) {
			t.Parallel()
			server := sidecar.Serve(t, built.binary, "--config", manyFile(t, backends, "ready_backends: "+wanted))
			testkit.Until(t, "the answer", func() bool {
				got, body := server.Probe(t, "/readyz?verbose")
				return got == status && strings.Contains(body, "1 of 2 backends can be used")
			})
			// What is ready or not answers all the same.
			if names := toolsOf(t, server); !slices.Contains(names, "lab.echo") {
				t.Errorf("tools %v", names)
			}
		})
	}
}

// TestABackendHasItsOwnRulesAndLimits holds the tools of one backend to rules and a timeout that the other one does not have.
func TestABackendHasItsOwnRulesAndLimits(t *testing.T) {
	t.Parallel()
	server := serve(t, "--config", manyFile(t, []string{
		"name: free, url: " + strconv.Quote(peer.GRPC(t).URL),
		fmt.Sprintf("name: held, url: %q, prefix: held, limits: {timeout: 200ms, max_concurrent_calls: 1}, policy: {rules: [{name: no-echo, tools: ['*.echo'], effect: deny, when: 'true'}]}", peer.GRPC(t).URL),
	}))
	testkit.Until(t, "the tools of both", func() bool {
		return slices.Contains(toolsOf(t, server), "held.lab.sleep") && slices.Contains(toolsOf(t, server), "lab.sleep")
	})
	agent := caller.Find(t, "rpc").Dial(t, target(server))
	defer agent.Close()
	for _, tc := range []struct{ tool, arguments, code string }{
		{"lab.echo", `{}`, ""},
		{"held.lab.echo", `{}`, "PERMISSION_DENIED"},
		{"lab.sleep", `{"duration":"0.4s"}`, ""},
		{"held.lab.sleep", `{"duration":"30s"}`, "TIMEOUT"},
	} {
		answer, code := caller.One(t.Context(), agent, caller.Call{ID: `"1"`, Tool: tc.tool, Args: tc.arguments}), ""
		if answer.Fault != nil {
			code = answer.Fault.Code
		}
		if answer.Err != nil || code != tc.code {
			t.Errorf("%s: %v %v, want %q", tc.tool, answer.Fault, answer.Err, tc.code)
		}
	}
}

// TestFiftyBackends has one that is away, two that hang, one that changes and one that refuses among fifty: the other 45 keep
// their tools, their latency and what they take of memory.
func TestFiftyBackends(t *testing.T) {
	t.Parallel()
	const all, odd = 50, 5
	var hidden atomic.Bool
	hidden.Store(true)
	var labs []*peer.Service
	var lines []string
	for i := range all {
		setup := peer.Setup{}
		switch i {
		case 1:
			setup.Hidden = &hidden
		case 2:
			setup.Token = "not the sidecar's"
		}
		lab := peer.GRPCSetup(t, setup)
		labs = append(labs, lab)
		lines = append(lines, fmt.Sprintf("name: b%d, url: %q, prefix: b%d", i, lab.URL, i))
	}
	slow := labs[3:odd]
	start := func(lines []string) *sidecar.Server {
		return sidecar.Serve(t, built.binary, "--config", manyFile(t, lines, "catalog: {refresh_interval: 1s}", "limits: {max_concurrent_calls: 200, max_queued_calls: 50}", "log: {calls: 'off'}"))
	}
	// The other has only the 45. What a call takes there says how busy the machine is.
	server, other := start(lines), start(lines[odd:])
	sound := func(server *sidecar.Server) (out []string) {
		for _, name := range toolsOf(t, server) {
			service, _, _ := strings.Cut(name, ".")
			if n, err := strconv.Atoi(strings.TrimPrefix(service, "b")); err == nil && n >= odd {
				out = append(out, name)
			}
		}
		return out
	}
	edge := caller.Find(t, "rpc")
	latency := func(server *sidecar.Server) (median time.Duration) {
		agent := edge.Dial(t, target(server))
		defer agent.Close()
		var took []time.Duration
		for round := range 8 {
			for i := odd; i < all; i++ {
				call, want := echoCall(edge, false, round, 1)
				call.Tool = fmt.Sprintf("b%d.%s", i, call.Tool)
				begun := time.Now()
				checkEcho(t, edge, call, want, caller.One(t.Context(), agent, call))
				took = append(took, time.Since(begun))
			}
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	for _, server := range []*sidecar.Server{server, other} {
		testkit.Until(t, "the tools of 45 backends", func() bool {
			n := len(sound(server))
			return n >= (all-odd)*3 && n%(all-odd) == 0
		})
		latency(server) // connections open
	}
	before, memory := sound(server), live(t, server)
	labs[0].Stop()
	hanging, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	for i := range 300 { // each has more than its half of the slots
		calls.Go(func() {
			agent := edge.Dial(t, target(server))
			defer agent.Close()
			_ = caller.One(hanging, agent, caller.Call{ID: strconv.Quote("hangs-" + strconv.Itoa(i)), Tool: fmt.Sprintf("b%d.%s", 3+i%len(slow), toolSleep), Args: `{"duration":"60s"}`})
		})
	}
	// Half of the 200 slots are the backends' own, two each. So two that hang have the other half and their own.
	testkit.Until(t, "the slow backends have all that they can have", func() bool { return slow[0].Calls()+slow[1].Calls() == 100+2*2 })
	// One of four rounds is enough: a busy machine slows some of them.
	var calm, beside time.Duration
	isSlow := func() bool { return beside > 3*calm+5*time.Millisecond }
	for n := range 4 {
		hidden.Store(n%2 == 1)
		if shown := sound(server); !slices.Equal(shown, before) {
			t.Fatalf("tools of the others changed: %d, were %d", len(shown), len(before))
		}
		if n == 0 || isSlow() {
			calm, beside = latency(other), latency(server)
		}
	}
	for i, lab := range slow {
		if lab.Calls() > 100 {
			t.Errorf("slow backend %d had %d calls at once; half of the slots are 100", i, lab.Calls())
		}
	}
	now := live(t, server)
	t.Logf("median of a call: %v where all are sound, %v beside five that are away, hang, change and refuse; %d and %d MiB in use", calm, beside, memory>>20, now>>20)
	if isSlow() {
		t.Errorf("median of a call to the others: %v, and %v where all are sound", beside, calm)
	}
	if now > memory+memory/2+(32<<20) {
		t.Errorf("memory: %d MiB, was %d MiB", now>>20, memory>>20)
	}
	_, body := server.Probe(t, "/readyz?verbose")
	for _, name := range []string{"b0", "b2"} {
		if !slices.ContainsFunc(strings.Split(body, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "backend "+name+" ") && strings.Contains(line, "failed")
		}) {
			t.Errorf("/readyz does not say that %s fails:\n%s", name, body)
		}
	}
}

// live returns the bytes that the process needs for its heap and its stacks: what is resident beside them is what the collector has not
// given back, which on a busy machine is as much again.
func live(t *testing.T, server *sidecar.Server) (total int64) {
	t.Helper()
	_, text := server.Probe(t, "/debug/pprof/heap?debug=1&gc=1")
	for _, found := range inUse.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total == 0 {
		t.Fatalf("no figures in %d bytes of a heap profile", len(text))
	}
	return total
}

var inUse = regexp.MustCompile(`(?m)^# (?:HeapInuse|Stack) = (\d+)`)
