// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
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
		other := *c
		other.id = c.id[:len(c.id)-8] + "AAAAAAAA"
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

// TestAStreamIsAtItsReplica: a connection that breaks goes on there, and elsewhere the client learns of the gap. The replica is
// killed, and the session goes on.
func TestAStreamIsAtItsReplica(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2)
	c := newLegacy(t, all[0], "2025-11-25")
	from := c.listen(all[0], http.MethodPost, rounds(7, 1000, "0.1s"), "")
	from.next()
	from.hangUp()
	again := c.listen(all[0], http.MethodGet, "", from.last)
	again.next()
	again.hangUp()
	gap := func() {
		t.Helper()
		main := c.listen(all[1], http.MethodGet, "", again.last)
		if line, err := main.lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, ": gap: ") {
			t.Errorf("the stream begins with %q, %v", line, err)
		}
		if e := main.next(); !strings.Contains(e.data, "notifications/tools/list_changed") {
			t.Errorf("after the gap: %s", e.data)
		}
		main.hangUp()
	}
	gap()
	all[0].ExpectExit(-1)
	all[0].Signal(t, syscall.SIGKILL)
	all[0].Wait(t)
	gap()
	c.want(all[1], http.MethodPost, echo(8, "goes on"), http.StatusOK, "goes on")
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
// another, gets the updates where it reads.
func TestASubscriptionMadeElsewhere(t *testing.T) {
	t.Parallel()
	all := together(t, startNATS(t, nil), 2, "--config", rig.Write(t, "sidecar.yaml", []byte(watchConfig)))
	c := newLegacy(t, all[0], "2025-11-25")
	main := c.listen(all[0], http.MethodGet, "", "")
	c.want(all[1], http.MethodPost, fmt.Sprintf(subscribes, "subscribe"), http.StatusOK, `"result":{}`)
	told := func() {
		t.Helper()
		for updates := 0; updates < 3; {
			e := main.next()
			switch {
			case strings.Contains(e.data, "list_changed"): // it is new here
			case e.id != "" && strings.Contains(e.data, "notifications/resources/updated") && strings.Contains(e.data, "watch_vehicles"):
				updates++
			default:
				t.Fatalf("told %+v", e)
			}
		}
	}
	told()
	main.hangUp()
	main = c.listen(all[1], http.MethodGet, "", main.last)
	told()
	main.hangUp()
	c.want(all[1], http.MethodPost, fmt.Sprintf(subscribes, "unsubscribe"), http.StatusOK, `"result":{}`)
}

// TestSessionsWithoutNATS: any replica serves a session; only what other replicas have to know is refused.
func TestSessionsWithoutNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2, "--config", rig.Write(t, "sidecar.yaml", []byte(watchConfig)))
	c, late := newLegacy(t, all[0], "2025-11-25"), newLegacy(t, all[0], "2025-11-25")
	n.stop()
	for _, s := range all {
		stateIs(t, s, false)
	}
	for _, s := range all {
		c.want(s, http.MethodPost, echo(2, "goes on"), http.StatusOK, "goes on")
		newLegacy(t, s, "2025-06-18")
	}
	from := c.listen(all[1], http.MethodPost, rounds(7, 5, "0.01s"), "")
	if got := from.rest(); len(got) == 0 || !strings.Contains(got[len(got)-1].data, `"id":7,"result"`) {
		t.Errorf("a call that streams: %v", got)
	}
	for _, refused := range []func() (int, http.Header, string){
		func() (int, http.Header, string) { return late.send(all[1], http.MethodDelete, "") },
		func() (int, http.Header, string) { return c.post(all[1], fmt.Sprintf(subscribes, "subscribe")) },
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
	late.want(all[1], http.MethodDelete, "", http.StatusNoContent, "")
}

// TestARollingUpdateOfSessions: replicas of the release that stored sessions run beside this one. An id of theirs is unknown here, once:
// its client initializes again, and the id that it gets is its own session, or unknown there. OUTRIGGER_OLD_BINARY is a binary of that
// release; without one, an id of the form that it gave is in for it.
func TestARollingUpdateOfSessions(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	all := together(t, n, 2)
	var olds []*sidecar.Server
	ids := []string{"yV0aWx8aS3kO5cEr1m0b7Qd2Zf9Lu4T_"}
	if path := os.Getenv("OUTRIGGER_OLD_BINARY"); path != "" {
		olds = togetherAs(t, path, n, 1)
		ids = append(ids, newLegacy(t, olds[0], "2025-11-25").id)
	}
	for _, id := range ids {
		c := newLegacy(t, all[0], "2025-11-25")
		before := *c
		before.id = id
		for _, s := range all {
			for method, body := range map[string]string{http.MethodPost: echo(1, "no"), http.MethodGet: "", http.MethodDelete: ""} {
				before.want(s, method, body, http.StatusNotFound, "ession not found")
			}
			c.want(s, http.MethodPost, echo(1, "its own"), http.StatusOK, "its own")
		}
		for _, s := range olds {
			c.want(s, http.MethodPost, echo(1, "no"), http.StatusNotFound, "ession not found")
		}
		c.want(all[1], http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, http.StatusAccepted, "")
		c.want(all[1], http.MethodDelete, "", http.StatusNoContent, "")
	}
	for _, s := range append(olds, all...) {
		stateIs(t, s, true)
	}
}
