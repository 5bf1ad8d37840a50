// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// limits are seven requests of each caller a day, and two calls of one tool.
const limits = `
domain: outrigger
descriptors:
  - key: caller
    rate_limit: {unit: day, requests_per_unit: 7}
  - key: tool
    value: lab.inspect
    rate_limit: {unit: day, requests_per_unit: 2}
---
`

const perCaller, perTool = 7, 2

// strict has calls wait longer than a busy machine takes, and rejects them if there is no answer.
var strict = []string{"--rate-timeout", "5s", "--rate-failure", "closed"}

// counts are how many calls ended with each code.
type counts struct {
	mu     sync.Mutex
	byCode map[string]int
	faults []*caller.Fault
}

func (c *counts) add(t *testing.T, a caller.Answer) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byCode == nil {
		c.byCode = map[string]int{}
	}
	switch {
	case a.Err != nil:
		t.Error(a.Err)
	case a.Fault != nil:
		c.byCode[a.Fault.Code]++
		c.faults = append(c.faults, a.Fault)
	default:
		c.byCode["OK"]++
	}
}

// calls makes calls of a tool at a replica, all at once, on one edge.
func calls(t *testing.T, s *sidecar.Server, edge, tool string, n int, c *counts) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
	defer cancel()
	agent := caller.Find(t, edge).Dial(t, caller.Target{Addr: s.Addr()})
	defer agent.Close()
	all := make([]caller.Call, n)
	for i := range all {
		all[i] = caller.Call{ID: strconv.Quote(fmt.Sprint(edge, "-", i)), Tool: tool, Procedure: procedures[tool], Args: "{}"}
	}
	for _, answer := range agent.CallAll(ctx, all) {
		c.add(t, answer)
	}
}

var procedures = map[string]string{
	"lab.echo": "/outrigger.demo.v1.Lab/Echo", "lab.inspect": "/outrigger.demo.v1.Lab/Inspect",
}

// edges are those that make calls and nothing else, which would count, too.
var edges = []string{"rpc", "rpc-batch", "tool-connect", "typed-connect", "exchange-connect"}

// TestReplicasShareOneLimit: together two replicas answer as many calls of a caller as the service allows one, on every edge.
func TestReplicasShareOneLimit(t *testing.T) {
	t.Parallel()
	s := startService(t, limits)
	replicas := []*sidecar.Server{s.replica(t, strict...), s.replica(t, strict...)}
	var got counts
	var callers sync.WaitGroup
	for _, replica := range replicas {
		for _, edge := range edges {
			callers.Go(func() { calls(t, replica, edge, "lab.echo", 3, &got) })
		}
	}
	callers.Wait()
	all := len(replicas) * len(edges) * 3
	if got.byCode["OK"] != perCaller || got.byCode["RATE_LIMITED"] != all-perCaller || len(got.byCode) != 2 {
		t.Fatalf("%v of %d calls", got.byCode, all)
	}
	for _, fault := range got.faults {
		if fault.Data == nil {
			continue // an RPC edge has it in its details
		}
		var data struct {
			RetryAfterMS int64 `json:"retryAfterMs"`
		}
		if err := json.Unmarshal(fault.Data, &data); err != nil || data.RetryAfterMS < 1000 || data.RetryAfterMS > 24*3600*1000 {
			t.Errorf("the time until the limit is reset: %s", fault.Data)
		}
		if !strings.Contains(fault.Message+string(fault.Data), "the shared limit of this caller is 7 per day") {
			t.Errorf("%v", fault)
		}
	}
	asked := 0.0
	for _, replica := range replicas {
		asked += metric(t, replica, `outrigger_rate_service_requests_total{outcome="ok"}`) + metric(t, replica, `outrigger_rate_service_requests_total{outcome="over_limit"}`)
	}
	if asked != float64(all) {
		t.Errorf("%v questions, want %d", asked, all)
	}
	// The name of the caller is in no key of the store.
	for _, key := range s.store.Keys() {
		if strings.Contains(key, "127.0.0.1") {
			t.Errorf("the store has %s", key)
		}
	}
}

// TestAToolsLimitIsForAllCallers, and the local rate stays in front: what it rejects does not count at the service.
func TestAToolsLimitIsForAllCallers(t *testing.T) {
	t.Parallel()
	s := startService(t, limits)
	tight := s.replica(t, append([]string{"--tool-rate", "0.001", "--tool-burst", "1"}, strict...)...)
	other := s.replica(t, strict...)
	var local, shared counts
	calls(t, tight, "rpc", "lab.inspect", 3, &local)
	calls(t, other, "rpc", "lab.inspect", 3, &shared)
	if local.byCode["OK"] != 1 || shared.byCode["OK"] != perTool-1 || shared.byCode["RATE_LIMITED"] != 3-shared.byCode["OK"] {
		t.Errorf("%v, then %v", local.byCode, shared.byCode)
	}
}

// TestTheServiceIsKilled: calls are answered or rejected, as the setting says, and the limit is back when the service is.
func TestTheServiceIsKilled(t *testing.T) {
	t.Parallel()
	s := startService(t, limits)
	open, closed := s.replica(t), s.replica(t, strict...)
	one := func(at *sidecar.Server) string {
		var c counts
		calls(t, at, "rpc", "lab.echo", 1, &c)
		for code := range c.byCode {
			return code
		}
		return ""
	}
	var used counts
	calls(t, closed, "rpc", "lab.echo", perCaller+1, &used)
	if used.byCode["OK"] != perCaller {
		t.Fatalf("%v", used.byCode)
	}
	s.stop()
	for range 20 {
		if a, b := one(open), one(closed); a != "OK" || b != "UNAVAILABLE" {
			t.Fatalf("without the service: %s and %s", a, b)
		}
	}
	isFailing := func(e sidecar.Entry) bool { return strings.HasPrefix(e.Message, "rate limit service failing") }
	isBack := func(e sidecar.Entry) bool { return e.Message == "rate limit service answers again" }
	for _, at := range []*sidecar.Server{open, closed} {
		at.Log(t, "the failure", isFailing)
		if n := strings.Count(at.Text(), "rate limit service failing"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		if metric(t, at, "outrigger_rate_service_failing") != 1 || metric(t, at, `outrigger_rate_service_skipped_total{reason="breaker"}`) == 0 {
			t.Error("the service is asked for each call")
		}
	}
	s.start(t)
	for name, at := range map[string]*sidecar.Server{"open": open, "closed": closed} {
		testkit.Until(t, name+": the limit is back", func() bool { return one(at) == "RATE_LIMITED" })
		at.Log(t, "the recovery", isBack)
	}
}

// TestTheStoreFails: the service answers with an error, which is no decision.
func TestTheStoreFails(t *testing.T) {
	t.Parallel()
	s := startService(t, limits)
	closed := s.replica(t, strict...)
	s.store.SetError("LOADING the data set")
	var got counts
	calls(t, closed, "rpc", "lab.echo", 2, &got)
	if got.byCode["UNAVAILABLE"] != 2 || metric(t, closed, `outrigger_rate_service_requests_total{outcome="error"}`) == 0 {
		t.Errorf("%v", got.byCode)
	}
	s.store.SetError("")
	testkit.Until(t, "calls run again", func() bool {
		var c counts
		calls(t, closed, "rpc", "lab.echo", 1, &c)
		return c.byCode["OK"] == 1
	})
}

// metric is the value of one series.
func metric(t *testing.T, s *sidecar.Server, series string) float64 {
	t.Helper()
	status, body := s.Probe(t, "/metrics")
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("%d, no series %s", status, series)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
