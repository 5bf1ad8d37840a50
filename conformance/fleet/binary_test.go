// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// fleet is some replicas of the real binary with what they share.
type fleet struct {
	nats *natsServer
	shop *shop
	all  []*member
	// keys and config are the files that all replicas share.
	keys, config string
}

// member is one replica, and a client of it.
type member struct {
	*sidecar.Server
	client outriggerv1connect.ToolServiceClient
}

const fleetConfig = `
timeout: 10m
limits: {drain_grace: 1s}
state: {lease: 2s}
tools:
  - method: fleet.v1.Shop/Look
    tool: {task_support: optional}
  - method: fleet.v1.Shop/Pay
    tool: {task_support: optional}
`

// startFleet starts replicas.
func startFleet(t *testing.T, replicas int) *fleet {
	t.Helper()
	f := &fleet{nats: startNATS(t, nil), shop: startShop(t), keys: rig.KeyFile(t), config: rig.Write(t, "sidecar.yaml", []byte(fleetConfig))}
	for range replicas {
		f.start(t)
	}
	for _, m := range f.all {
		m.Ready(t)
		m.readyz(t, "state", "ok", "1")
	}
	return f
}

// join adds a replica.
func (f *fleet) join(t *testing.T) {
	t.Helper()
	m := f.start(t)
	m.Ready(t)
	m.readyz(t, "state", "ok", "1")
}

// start starts a replica.
func (f *fleet) start(t *testing.T) *member {
	t.Helper()
	server := sidecar.Serve(t, built.binary, "--backend", f.shop.url, "--descriptors", f.shop.descriptors, "--config", f.config,
		"--state", f.nats.URL(), "--state-key", f.keys)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m := &member{Server: server, client: outriggerv1connect.NewToolServiceClient(&http.Client{Transport: transport}, server.URL(""))}
	f.all = append(f.all, m)
	return m
}

// readyz waits until the probe says something.
func (m *member) readyz(t *testing.T, check, state, _ string) {
	t.Helper()
	testkit.Until(t, "the check "+check+" is "+state, func() bool {
		code, text := m.Probe(t, "/readyz?verbose")
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == check && fields[1] == state {
				return code == http.StatusOK
			}
		}
		return false
	})
}

func tasks() *outriggerv1.RequestContext {
	return &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
}

// begin calls a tool and returns the id of the task.
func (m *member) begin(t *testing.T, tool, name string) string {
	t.Helper()
	out, err := m.call(t, tool, name)
	if err != nil || out.GetTask() == nil {
		t.Fatalf("%s: %v, %v", tool, out, err)
	}
	return out.GetTask().GetTaskId()
}

func (m *member) call(t *testing.T, tool, name string) (*outriggerv1.ToolOutcome, error) {
	t.Helper()
	return m.callWithin(t, testkit.Limit(), tool, name)
}

// callWithin calls with a deadline, which is also that of the work.
func (m *member) callWithin(t *testing.T, limit time.Duration, tool, name string) (*outriggerv1.ToolOutcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	resp, err := m.client.CallTool(ctx, connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"name":"` + name + `"}`)}, Context: tasks(),
	}))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func (m *member) get(t *testing.T, id string) (*outriggerv1.Task, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	resp, err := m.client.GetTask(ctx, connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: id, Context: tasks()}))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// ends waits until a task has ended, as one replica tells it.
func (m *member) ends(t *testing.T, id string) *outriggerv1.Task {
	t.Helper()
	var got *outriggerv1.Task
	testkit.Until(t, "the task ends", func() bool {
		var err error
		if got, err = m.get(t, id); err != nil {
			if connect.CodeOf(err) == connect.CodeInvalidArgument || connect.CodeOf(err) == connect.CodeNotFound {
				t.Fatalf("the task has vanished: %v", err)
			}
			return false
		}
		return got.GetStatus() != working
	})
	return got
}

// undone counts the operations on tasks that NATS has not done.
func (m *member) undone(t *testing.T) (n int) {
	t.Helper()
	_, page := m.Probe(t, "/metrics")
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, "outrigger_state_operations_total{") && strings.Contains(series, `store="tasks"`) && !strings.Contains(series, `outcome="ok"`) {
			count, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			n += count
		}
	}
	return n
}

func (f *fleet) awaitCall(t *testing.T, key string, n int) {
	t.Helper()
	testkit.Until(t, "the backend is called: "+key, func() bool { return f.shop.count(key) >= n })
}

func isUnknown(got *outriggerv1.Task) bool {
	return got.GetStatus() == failed && strings.Contains(got.GetError().GetMessage(), "outcome unknown")
}

// TestReplicasOfTheBinary: a task that begins at one replica is read and cancelled at
// another; when a replica is killed, the others finish what may be run again, and say of
// the rest that no one knows; SIGTERM does the same with a word.
func TestReplicasOfTheBinary(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	a, b, c := f.all[0], f.all[1], f.all[2]

	id := a.begin(t, "shop.look", "cancelled")
	f.awaitCall(t, "Look cancelled", 1)
	if got, err := b.get(t, id); err != nil || got.GetStatus() != working {
		t.Errorf("at the other replica: %v, %v", got, err)
	}
	if _, err := b.client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: id, Context: tasks()})); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the backend's call ends", func() bool {
		f.shop.mu.Lock()
		defer f.shop.mu.Unlock()
		return f.shop.ended["Look cancelled"] == 1
	})
	if got := c.ends(t, id); got.GetStatus() != cancelled {
		t.Errorf("at the third replica: %v", got)
	}

	look, pay := a.begin(t, "shop.look", "killed"), a.begin(t, "shop.pay", "killed")
	f.awaitCall(t, "Look killed", 1)
	f.awaitCall(t, "Pay killed", 1)
	a.ExpectExit(-1)
	a.Signal(t, syscall.SIGKILL)
	a.Wait(t)
	f.awaitCall(t, "Look killed", 2)
	if got := c.ends(t, pay); !isUnknown(got) {
		t.Errorf("the payment: %v", got)
	}

	second := b.begin(t, "shop.look", "left")
	f.awaitCall(t, "Look left", 1)
	lost := b.begin(t, "shop.pay", "left")
	f.awaitCall(t, "Pay left", 1)
	b.Signal(t, syscall.SIGTERM)
	b.Wait(t)
	f.awaitCall(t, "Look left", 2)
	if got := c.ends(t, lost); !isUnknown(got) {
		t.Errorf("the payment of the drained replica: %v", got)
	}
	// By now the last replica has both.
	f.shop.letGo()
	for id, want := range map[string]string{look: "result of Look killed", second: "result of Look left"} {
		if got := c.ends(t, id); !strings.Contains(string(got.GetResult().GetDataJson()), want) {
			t.Errorf("want %q: %v", want, got)
		}
	}
	for _, key := range []string{"Pay killed", "Pay left"} {
		if n := f.shop.count(key); n != 1 {
			t.Errorf("%s was called %d times", key, n)
		}
	}
	_, metrics := c.Probe(t, "/metrics")
	for _, want := range []string{"outrigger_task_takeovers_total ", "outrigger_tasks_outcome_unknown_total ", `outrigger_state_operations_total{operation="create",outcome="ok",store="owners"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
}

// TestNATSStopsUnderCalls: calls that need no state go on, what needs it is UNAVAILABLE and
// never unknown, the probe says degraded, and nothing acknowledged is lost.
func TestNATSStopsUnderCalls(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	a, b := f.all[0], f.all[1]
	id := a.begin(t, "shop.look", "during")
	f.awaitCall(t, "Look during", 1)
	f.nats.stop()
	for _, m := range f.all {
		m.readyz(t, "state", "degraded", "")
	}
	code, text := a.Probe(t, "/readyz")
	if code != http.StatusOK || !strings.HasPrefix(text, "ready, degraded: state") {
		t.Errorf("/readyz: %d %q", code, text)
	}
	for range 20 {
		// A call that waited for NATS would run out of its time.
		out, err := a.call(t, "shop.ping", "modern")
		if err != nil || out.GetResult().GetStatus() != "success" {
			t.Fatalf("a call without state: %v, %v", out, err)
		}
	}
	if _, err := b.get(t, id); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("get without NATS: %v", err)
	}
	if _, err := a.call(t, "shop.pay", "refused"); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a call that must be a task: %v", err)
	}
	if n := f.shop.count("Pay refused"); n != 0 {
		t.Errorf("a call that was refused ran %d times", n)
	}
	f.shop.letGo() // the task ends while no one can store it
	before := a.undone(t)
	testkit.Until(t, "its result is not stored", func() bool { return a.undone(t) > before })
	f.nats.start()
	for _, m := range f.all {
		m.readyz(t, "state", "ok", "")
	}
	if got := b.ends(t, id); !strings.Contains(string(got.GetResult().GetDataJson()), "result of Look during") {
		t.Errorf("%v", got)
	}
	if n := f.shop.count("Look during"); n != 1 {
		t.Errorf("the backend was called %d times", n)
	}
}

// TestHowOftenWorkRunsAgain: the configuration says how often, apart for replicas that died and that drained.
func TestHowOftenWorkRunsAgain(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 0)
	f.config = rig.Write(t, "sidecar.yaml", []byte(strings.Replace(fleetConfig, "lease: 2s", "lease: 2s, max_takeovers: 1, max_handovers: 2", 1)))
	f.join(t)
	for _, tc := range []struct {
		name   string
		signal syscall.Signal
		code   int
		again  int
	}{{"died", syscall.SIGKILL, -1, 1}, {"drained", syscall.SIGTERM, 0, 2}} {
		id := f.all[len(f.all)-1].begin(t, "shop.look", tc.name)
		for run := 1; ; run++ {
			f.awaitCall(t, "Look "+tc.name, run)
			last := f.all[len(f.all)-1]
			f.join(t)
			last.ExpectExit(tc.code)
			last.Signal(t, tc.signal)
			last.Wait(t)
			if run > tc.again {
				break
			}
		}
		if got := f.all[len(f.all)-1].ends(t, id); !isUnknown(got) {
			t.Errorf("%s: %v", tc.name, got)
		}
		if n := f.shop.count("Look " + tc.name); n != 1+tc.again {
			t.Errorf("%s: it ran %d times, want %d", tc.name, n, 1+tc.again)
		}
	}
}
