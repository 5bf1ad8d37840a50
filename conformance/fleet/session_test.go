// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestASessionAtEveryReplica takes a session through its life, with each request at another
// replica.
func TestASessionAtEveryReplica(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 3)
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		c := newLegacy(t, all[0], version)
		c.want(all[1], http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, http.StatusAccepted, "")
		for i, s := range all {
			c.want(s, http.MethodPost, echo(i, "hello"), http.StatusOK, "hello")
			c.want(s, http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"initialize","params":{}}`, http.StatusBadRequest, "has been initialized")
		}
		// A session is its caller's alone, and its id cannot be guessed.
		other := *c
		other.id = strings.Repeat("A", len(c.id))
		other.want(all[2], http.MethodPost, echo(1, "no"), http.StatusNotFound, "ession not found")
		c.want(all[2], http.MethodDelete, "", http.StatusNoContent, "")
		for _, s := range all {
			testkit.Until(t, "the session has ended everywhere", func() bool {
				status, _, _ := c.post(s, echo(1, "late"))
				return status == http.StatusNotFound
			})
		}
		c.want(all[1], http.MethodDelete, "", http.StatusNotFound, "")
	}
}

// TestAStreamGoesOnAtAnotherReplica cuts the connection of a call, and reads the rest of its
// stream from other replicas: nothing is missing, and nothing comes twice.
func TestAStreamGoesOnAtAnotherReplica(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 3)
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		c := newLegacy(t, all[0], version)
		const n = 40
		from := c.listen(all[0], http.MethodPost, rounds(7, n, "0.05s"), "")
		var got []told
		for i := range 12 {
			if i%4 == 3 { // each reader has three events
				from.hangUp()
				from = c.listen(all[(i/4+1)%3], http.MethodGet, "", from.last)
			}
			got = append(got, from.next())
		}
		got = append(got, from.rest()...)
		wantProgress(t, got, n)
		if last := got[len(got)-1].data; !strings.Contains(last, `"id":7,"result"`) {
			t.Errorf("the last event is %s", last)
		}
		// The stream can be read again, at any replica.
		for _, s := range all {
			if again := c.listen(s, http.MethodGet, "", got[0].id).rest(); !slices.Equal(again, got[1:]) {
				t.Errorf("again: %v, want %v", again, got[1:])
			}
		}
		for _, id := range []string{"1-1", "zz", got[3].id + "0", strings.Repeat("0", 16) + "-1"} {
			status := http.StatusServiceUnavailable
			testkit.Until(t, "the store has an answer in time", func() bool {
				resp, err := c.do(t.Context(), all[1], http.MethodGet, "", id)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				status = resp.StatusCode
				return status != http.StatusServiceUnavailable
			})
			if status != http.StatusBadRequest {
				t.Errorf("Last-Event-ID %s: %d", id, status)
			}
		}
	}
}

// wantProgress checks that there is one notification for each step, in order, with ids that
// are all different.
func wantProgress(t *testing.T, got []told, n int) {
	t.Helper()
	ids := map[string]bool{}
	last, steps := 0.0, 0
	for _, e := range got {
		if e.id == "" || ids[e.id] {
			t.Errorf("the id %q of %s is missing or not new", e.id, e.data)
		}
		ids[e.id] = true
		var m struct {
			Method string `json:"method"`
			Params struct {
				Progress float64 `json:"progress"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(e.data), &m); err != nil {
			t.Fatalf("%s: %v", e.data, err)
		}
		if m.Method != "notifications/progress" {
			continue
		}
		if steps++; m.Params.Progress <= last {
			t.Errorf("progress %v after %v", m.Params.Progress, last)
		}
		last = m.Params.Progress
	}
	if steps < n/4 || last < float64(n-1) { // some stand for several rounds
		t.Errorf("%d notifications up to %v, want %d", steps, last, n)
	}
}

// TestAReplicaIsKilledBehindAStream: whoever resumes the stream is told that nobody knows
// the outcome, once.
func TestAReplicaIsKilledBehindAStream(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 3, "--config", rig.Write(t, "sidecar.yaml", []byte("state: {lease: 2s}\n")))
	c := newLegacy(t, all[0], "2025-11-25")
	from := c.listen(all[0], http.MethodPost, rounds(7, 1000, "0.1s"), "")
	first := from.next()
	main := c.listen(all[0], http.MethodGet, "", "")
	all[0].ExpectExit(-1)
	all[0].Signal(t, syscall.SIGKILL)
	all[0].Wait(t)
	from.rest()
	_ = main.rest()
	// One after the other: the newest reader of a stream wins, also at another replica.
	b := c.listen(all[1], http.MethodGet, "", from.last).rest()
	again := c.listen(all[2], http.MethodGet, "", first.id).rest()
	for name, got := range map[string][]told{"one replica": b, "the other": again} {
		if len(got) == 0 || !strings.Contains(got[len(got)-1].data, `"id":7`) || !strings.Contains(got[len(got)-1].data, "outcome unknown") ||
			!strings.Contains(got[len(got)-1].data, "TRANSPORT_ERROR") {
			t.Errorf("%s: %v", name, got)
		}
		for _, e := range got[:max(len(got)-1, 0)] {
			if !strings.Contains(e.data, "notifications/progress") {
				t.Errorf("%s: %s", name, e.data)
			}
		}
	}
	// What belongs to no request goes on, too.
	main = c.listen(all[1], http.MethodGet, "", main.last)
	c.want(all[2], http.MethodPost, echo(8, "goes on"), http.StatusOK, "goes on")
	main.hangUp()
}

// TestAQuestionIsAnsweredAtAnotherReplica: the client is asked on a stream of one replica,
// and its answer comes to another one.
func TestAQuestionIsAnsweredAtAnotherReplica(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2, "--destructive", "confirm")
	c := newLegacy(t, all[0], "2025-11-25")
	for at := range 2 {
		from := c.listen(all[at], http.MethodPost, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"fleet_cancel_order",`+cancels+`}}`, "")
		var asked struct {
			ID     string `json:"id"`
			Method string `json:"method"`
		}
		if err := json.Unmarshal([]byte(from.next().data), &asked); err != nil || asked.Method != "elicitation/create" {
			t.Fatalf("%v: %+v", err, asked)
		}
		yes := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"confirm":true}}}`, asked.ID)
		c.want(all[1-at], http.MethodPost, strings.Replace(yes, asked.ID, asked.ID+"0", 1), http.StatusBadRequest, "unexpected response")
		c.want(all[1-at], http.MethodPost, yes, http.StatusAccepted, "")
		got := from.rest()
		if len(got) != 1 || !strings.Contains(got[0].data, `"id":5,"result"`) || strings.Contains(got[0].data, "DESTRUCTIVE_BLOCKED") {
			t.Errorf("after the answer: %v", got)
		}
		c.want(all[1-at], http.MethodPost, yes, http.StatusBadRequest, "unexpected response")
	}
}

// TestACancellationComesToAnotherReplica ends the call where it runs.
func TestACancellationComesToAnotherReplica(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2)
	c := newLegacy(t, all[0], "2025-11-25")
	from := c.listen(all[0], http.MethodPost, rounds(7, 1000, "0.1s"), "")
	from.next()
	c.want(all[1], http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`, http.StatusAccepted, "")
	for _, e := range from.rest() { // it ends
		if strings.Contains(e.data, `"result"`) {
			t.Errorf("an answer after the cancellation: %s", e.data)
		}
	}
}

const watchConfig = "tools:\n  - method: outrigger.demo.v1.Fleet/WatchVehicles\n    tool: {watch: true}\n"

const subscribes = `{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":"outrigger://watches/fleet.watch_vehicles?rounds=1000"}}`

// TestASubscriptionMadeElsewhere: a client that reads at one replica, and subscribes at
// another, is told at the one that it reads from, wherever that is.
func TestASubscriptionMadeElsewhere(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2, "--config", rig.Write(t, "sidecar.yaml", []byte(watchConfig)))
	c := newLegacy(t, all[0], "2025-11-25")
	main := c.listen(all[0], http.MethodGet, "", "")
	c.want(all[1], http.MethodPost, fmt.Sprintf(subscribes, "subscribe"), http.StatusOK, `"result":{}`)
	told := func() {
		t.Helper()
		for range 3 {
			if e := main.next(); e.id == "" || !strings.Contains(e.data, "notifications/resources/updated") || !strings.Contains(e.data, "watch_vehicles") {
				t.Fatalf("told %+v", e)
			}
		}
	}
	told()
	main.hangUp()
	main = c.listen(all[1], http.MethodGet, "", main.last)
	told()
	// A client that comes back without a word of what it had begins anew.
	old := main
	main = c.listen(all[0], http.MethodGet, "", "")
	told()
	old.rest() // it has ended: the newest reader wins, also at another replica
	c.want(all[1], http.MethodPost, fmt.Sprintf(subscribes, "unsubscribe"), http.StatusOK, `"result":{}`)
	main.hangUp()
}

// TestSessionsHaveOneLimit: the limit is that of all replicas, and the session that was not
// used for the longest time makes room, wherever it is.
func TestSessionsHaveOneLimit(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2, "--max-sessions", "4", "--caller-share", "100")
	used := newLegacy(t, all[0], "2025-11-25")
	main := used.listen(all[0], http.MethodGet, "", "")
	var idle []*legacy
	for i := range 4 {
		// A replica hears of a session of another one a moment later.
		testkit.Until(t, "both know of all sessions", func() bool {
			for _, s := range all {
				if _, text := s.Probe(t, "/metrics"); !strings.Contains(text, fmt.Sprintf("outrigger_limit_used{limit=\"max_sessions\"} %d\n", 1+i)) {
					return false
				}
			}
			return true
		})
		idle = append(idle, newLegacy(t, all[i%2], "2025-06-18"))
	}
	idle[0].want(all[1], http.MethodPost, echo(1, "gone"), http.StatusNotFound, "")
	for i, s := range append(idle[1:], used) {
		s.want(all[i%2], http.MethodPost, echo(i, "here"), http.StatusOK, "here")
	}
	main.hangUp()
}

// TestSessionsWithoutNATS: a session goes on at its replica, with events that have no ids;
// only what needs the store is refused, and all comes back by itself.
func TestSessionsWithoutNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2, "--config", rig.Write(t, "sidecar.yaml", []byte(watchConfig)))
	c, late := newLegacy(t, all[0], "2025-11-25"), newLegacy(t, all[0], "2025-11-25")
	from := c.listen(all[0], http.MethodPost, rounds(7, 60, "0.1s"), "")
	from.next()
	n.stop()
	for _, s := range all {
		stateIs(t, s, false)
	}
	c.want(all[0], http.MethodPost, echo(2, "goes on"), http.StatusOK, "goes on")
	for _, refused := range []func() (int, http.Header, string){
		func() (int, http.Header, string) { return late.post(all[1], echo(2, "elsewhere")) },
		func() (int, http.Header, string) {
			return (&legacy{t: t, version: c.version, http: c.http}).open(all[0])
		},
		func() (int, http.Header, string) { return late.send(all[0], http.MethodDelete, "") },
		func() (int, http.Header, string) {
			return c.post(all[0], fmt.Sprintf(subscribes, "subscribe"))
		},
	} {
		status, header, text := refused()
		if !strings.Contains(text, "UNAVAILABLE") || !strings.Contains(text, "shared state") || status == http.StatusServiceUnavailable && header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", status, header, text)
		}
	}
	n.start()
	for _, s := range all {
		stateIs(t, s, true)
	}
	got := from.rest()
	without := 0
	for _, e := range got {
		if e.id == "" {
			without++
		}
	}
	if len(got) == 0 || without == 0 || without == len(got) {
		t.Errorf("%d of %d events have no id, want those of the outage", without, len(got))
	}
	if len(got) > 0 && !strings.Contains(got[len(got)-1].data, `"id":7,"result"`) {
		t.Errorf("the last event is %s", got[len(got)-1].data)
	}
	late.want(all[1], http.MethodPost, echo(2, "elsewhere"), http.StatusOK, "elsewhere")
	late.want(all[1], http.MethodDelete, "", http.StatusNoContent, "")
}

// TestADrainedReplicaLeavesItsSessions to others.
func TestADrainedReplicaLeavesItsSessions(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2)
	c := newLegacy(t, all[0], "2025-11-25")
	main := c.listen(all[0], http.MethodGet, "", "")
	from := c.listen(all[0], http.MethodPost, rounds(7, 20, "0.05s"), "")
	first := from.next()
	from.hangUp()
	all[0].Signal(t, syscall.SIGTERM)
	main.rest()
	all[0].Wait(t)
	got := c.listen(all[1], http.MethodGet, "", first.id).rest()
	if len(got) == 0 || !strings.Contains(got[len(got)-1].data, `"id":7,"result"`) {
		t.Errorf("the rest of the stream: %v", got)
	}
	main = c.listen(all[1], http.MethodGet, "", main.last)
	main.hangUp()
	c.want(all[1], http.MethodPost, echo(8, "goes on"), http.StatusOK, "goes on")
}
