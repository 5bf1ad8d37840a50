// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/faults"
)

// fewEdges are one of each way into the pipeline: JSON-RPC, ToolService, and the
// two forms of the typed pass-through.
var fewEdges = []string{"rpc", "tool-grpc-go", "typed-connect", "typed-grpc-go"}

// onTheWay are the codes of calls that broke off.
var onTheWay = []string{faults.Unavailable, faults.TransportError}

// account fails the test with what the oracle finds in books of which every call
// was disturbed.
func account(t *testing.T, rig *faults.Rig, entries []faults.Entry, executions []faults.Execution, codes ...string) {
	t.Helper()
	d := faults.Disturbance{From: time.Unix(0, 0), To: time.Now(), Codes: codes}
	for _, f := range faults.Audit(entries, executions, nil, d, rig.Bounds()) {
		t.Error(f)
	}
}

// TestRetryRepeatsOnlyWhatDoesNoHarm breaks the connection while calls of both
// kinds are in the backend. Those of the idempotent tool are repeated and
// succeed; the outcome of the others is unknown, and their callers are told so.
func TestRetryRepeatsOnlyWhatDoesNoHarm(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{
		Binary: binary, Edges: fewEdges, Timeout: 10 * time.Second, Backoff: 500 * time.Millisecond, Flags: []string{"--breaker", "off"},
	})
	entries, executions := rig.Send(faults.Wave{Echoes: 2, Sleeps: 2, Work: 600 * time.Millisecond}, rig.Proxy.Reset)
	account(t, rig, entries, executions, faults.TransportError)
	for _, e := range entries {
		runs := len(slices.DeleteFunc(slices.Clone(executions), func(x faults.Execution) bool { return x.Nonce != e.Nonce }))
		got := "success"
		if f := e.Answers[0].Fault; f != nil {
			got = f.Code
		}
		switch {
		case e.Idempotent && (got != "success" || runs != 2):
			t.Errorf("%s %s: %s after %d executions, want a success after 2", e.Edge, e.Method, got, runs)
		case !e.Idempotent && (got != faults.TransportError || runs != 1):
			t.Errorf("%s %s: %s after %d executions, want TRANSPORT_ERROR after 1", e.Edge, e.Method, got, runs)
		}
	}
	rig.AtRest()
}

// TestAnIdempotencyKeyAllowsARepetition does the same with calls of the tool that
// is not idempotent, half of which have a key. Those are repeated, and no other.
func TestAnIdempotencyKeyAllowsARepetition(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{
		Binary: binary, Edges: []string{"rpc"}, Timeout: 10 * time.Second, Backoff: 500 * time.Millisecond, Flags: []string{"--breaker", "off"},
	})
	client := caller.Client(false)
	defer client.CloseIdleConnections()
	post := func(path, body string, header map[string]string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, rig.Server.URL(path), strings.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		for name, value := range header {
			req.Header.Set(name, value)
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		return string(raw), err
	}
	const args = `{"nonce":%q,"duration":"0.6s"}`
	rpc := func(nonce, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"lab.sleep","arguments":`+args+`%s}}`, nonce, nonce, meta)
	}
	key := func(value string) map[string]string { return map[string]string{"Idempotency-Key": value} }
	rows := []struct {
		nonce, path, body string
		header            map[string]string
		keyed             bool
	}{
		{nonce: "rpc", path: "/rpc", body: rpc("rpc", "")},
		{nonce: "rpc-header", path: "/rpc", body: rpc("rpc-header", ""), header: key("k-1"), keyed: true},
		{nonce: "rpc-meta", path: "/rpc", body: rpc("rpc-meta", `,"_meta":{"dev.outrigger/idempotency-key":"k-2"}`), keyed: true},
		{nonce: "typed", path: "/outrigger.demo.v1.Lab/Sleep", body: fmt.Sprintf(args, "typed")},
		{nonce: "typed-header", path: "/outrigger.demo.v1.Lab/Sleep", body: fmt.Sprintf(args, "typed-header"), header: key("k-3"), keyed: true},
	}
	before := len(rig.Backend.Executions())
	answers := make([]string, len(rows))
	rig.Backend.Hold()
	var calling sync.WaitGroup
	for i, row := range rows {
		calling.Go(func() {
			var err error
			if answers[i], err = post(row.path, row.body, row.header); err != nil {
				t.Errorf("%s: %v", row.nonce, err)
			}
		})
	}
	rig.Await("all calls are in the backend", func() bool { return len(rig.Backend.Executions()) == before+len(rows) })
	rig.Proxy.Reset()
	rig.Backend.Release()
	calling.Wait()
	runs := map[string]int{}
	for _, x := range rig.Backend.Executions()[before:] {
		runs[x.Nonce]++
	}
	for i, row := range rows {
		broken, want := strings.Contains(answers[i], faults.TransportError) || strings.Contains(answers[i], `"unavailable"`), 1
		if row.keyed {
			want = 2
		}
		if runs[row.nonce] != want || broken == row.keyed {
			t.Errorf("%s: %d executions, want %d: %.300s", row.nonce, runs[row.nonce], want, answers[i])
		}
	}
}

// breaker is what /readyz?verbose says of it.
type breaker struct {
	state        string
	opened, held int
}

var breakerLine = regexp.MustCompile(`breaker ([a-z_]+), opened (\d+) times; (\d+) calls rejected`)

func readBreaker(t *testing.T, rig *faults.Rig) breaker {
	t.Helper()
	_, text := rig.Server.Probe(t, "/readyz?verbose")
	found := breakerLine.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("/readyz?verbose says nothing of a breaker: %s", text)
	}
	opened, _ := strconv.Atoi(found[2])
	held, _ := strconv.Atoi(found[3])
	return breaker{state: found[1], opened: opened, held: held}
}

// TestTheBreakerOpensAndRecovers kills the backend. After some failures calls are
// answered at once, with the time to wait, and when the backend is back,
// everything works again by itself.
func TestTheBreakerOpensAndRecovers(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{Binary: binary, Edges: fewEdges, Timeout: 10 * time.Second})
	if got := readBreaker(t, rig); got != (breaker{state: "closed"}) {
		t.Errorf("at first: %+v", got)
	}
	rig.Backend.Kill()
	var entries []faults.Entry
	var executions []faults.Execution
	send := func() {
		e, x := rig.Send(faults.Wave{Echoes: 1, Sleeps: 3}, nil)
		entries, executions = append(entries, e...), append(executions, x...)
	}
	rig.Await("the breaker opens", func() bool {
		send()
		return readBreaker(t, rig).opened > 0
	})
	rig.Await("calls are held back, and say how long to wait", func() bool {
		send()
		return readBreaker(t, rig).held > 0 && slices.ContainsFunc(entries, hinted)
	})
	if status, _ := rig.Server.Probe(t, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d while the backend is away", status)
	}
	account(t, rig, entries, executions, onTheWay...)
	rig.Backend.Start()
	rig.Await("the breaker closes and /readyz is 200", func() bool {
		status, _ := rig.Server.Probe(t, "/readyz")
		return status == http.StatusOK && readBreaker(t, rig).state == "closed"
	})
	entries, executions = rig.Send(faults.Wave{Echoes: 2, Sleeps: 2}, nil)
	account(t, rig, entries, executions) // no code: every call succeeds
	rig.AtRest()
}

// soon is how long edges may need until they work again once the backend listens:
// the longest pause between two looks for it, 1.25 s, and as much for a machine that
// is busy.
const soon = 2500 * time.Millisecond

// TestABackendThatIsBackIsServedSoon kills the backend for several seconds, with the
// breaker's own default, among callers some of whose calls take a second. The
// breaker neither waits for its time to be over nor for such a call.
func TestABackendThatIsBackIsServedSoon(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{
		Binary: binary, Edges: append([]string{"stdio-modern"}, fewEdges...), Timeout: timeout, OpenFor: 2 * time.Second, Seed: seed(t),
	})
	for _, away := range []time.Duration{time.Second, 5 * time.Second} {
		result := round(t, rig, faults.Fault{
			Name: fmt.Sprintf("kill -9, away for %v", away), Hold: away, Codes: onTheWay, Shows: faults.Unavailable,
			Break: func(r *faults.Rig) { r.Backend.Kill() },
			Mend:  func(r *faults.Rig) { r.Backend.Start() },
		})
		if result.Recovered > soon {
			t.Errorf("away for %v: every edge works %v after the backend is back, want at most %v", away, result.Recovered, soon)
		}
		t.Log("\n" + faults.Table([]faults.Result{result}))
	}
}

// hinted reports whether a call was answered UNAVAILABLE with a time to wait.
func hinted(e faults.Entry) bool {
	f := e.Answers[0].Fault
	var data struct {
		RetryAfterMs int64 `json:"retryAfterMs"`
	}
	return f != nil && f.Code == faults.Unavailable && json.Unmarshal(f.Data, &data) == nil && data.RetryAfterMs > 0
}

// TestToolFailuresNeverTripTheBreaker has a tool that fails with every code that
// a broken way would have too. It goes on being called.
func TestToolFailuresNeverTripTheBreaker(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{Binary: binary, Edges: fewEdges, Timeout: 10 * time.Second})
	agent := caller.Find(t, "rpc").Dial(t, caller.Target{Addr: rig.Server.Addr()})
	defer agent.Close()
	for i := range 25 { // more than the breaker's least number of calls, of each
		for _, code := range []int{2, 4, 8, 13, 14} {
			got := caller.One(t.Context(), agent, caller.Call{
				ID: fmt.Sprintf(`"%d-%d"`, i, code), Tool: "lab.fail", Args: fmt.Sprintf(`{"code":%d}`, code),
			})
			if got.Fault == nil || got.Fault.Code != "TOOL_EXECUTION_FAILED" {
				t.Fatalf("code %d, call %d: %v; %v", code, i, got.Err, got.Fault)
			}
		}
	}
	if got := readBreaker(t, rig); got != (breaker{state: "closed"}) {
		t.Errorf("%+v", got)
	}
	entries, executions := rig.Send(faults.Wave{Echoes: 1, Sleeps: 1}, nil)
	account(t, rig, entries, executions)
}

var rejectedLine = regexp.MustCompile(`(?m)^outrigger_queue_rejected_total\{[^}]*\} (\d+)$`)

// rejected is how many calls got no place.
func rejected(t *testing.T, rig *faults.Rig) int {
	t.Helper()
	_, page := rig.Server.Probe(t, "/metrics")
	all := 0
	for _, line := range rejectedLine.FindAllStringSubmatch(page, -1) {
		n, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		all += n
	}
	return all
}

// TestTheQueueIsBoundedWhileTheBackendStands stops the backend with more calls
// than may run and wait together. Who has no place learns it at once and did not
// reach the backend; the others are answered when it goes on.
func TestTheQueueIsBoundedWhileTheBackendStands(t *testing.T) {
	t.Parallel()
	const places, queue = 4, 4
	rig := faults.NewRig(t, faults.Options{
		Binary: binary, Edges: fewEdges, Timeout: 10 * time.Second,
		Flags: []string{"--max-calls", strconv.Itoa(places), "--max-queued", strconv.Itoa(queue), "--queue-wait", "300ms"},
	})
	rig.Backend.Freeze()
	wave, before := faults.Wave{Echoes: 4, Sleeps: 4}, rejected(t, rig)
	var entries []faults.Entry
	var executions []faults.Execution
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		entries, executions = rig.Send(wave, nil)
	}()
	t.Cleanup(func() { <-sent })
	// It is until all who have no place have been told so: if it went on before, a
	// late call would find one.
	without := len(fewEdges)*(wave.Echoes+wave.Sleeps) - places
	rig.Await("all who have no place are told so", func() bool { return rejected(t, rig)-before >= without })
	rig.Backend.Thaw()
	<-sent
	account(t, rig, entries, executions, faults.Unavailable)
	var answered, turned int
	for _, e := range entries {
		if e.Answers[0].Fault == nil {
			answered++
		} else {
			turned++
		}
	}
	if answered < places || turned < len(entries)-places-queue {
		t.Errorf("%d of %d calls were answered and %d turned away; %d places, %d in the queue", answered, len(entries), turned, places, queue)
	}
	rig.AtRest()
}
