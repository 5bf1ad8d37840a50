// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// The load under which the pod is deleted.
const (
	loadCallers = 32
	loadBefore  = 3 * time.Second // before the deletion
	loadAfter   = 5 * time.Second // after the pod has gone
	longestNap  = 800 * time.Millisecond
	longCall    = 3 * time.Second // one in ten, so that some last well into the drain
)

// account is what became of one request.
type account struct {
	edge, nonce string
	attempts    []attempt
	at          []int // which pod each attempt went to
}

// testDeletion deletes one of two pods while 32 callers call both over every
// edge. No caller hears of the deletion: it finds out by being refused, or by
// finding no listener, and then goes to the other pod with the same request and stays
// there, as a client of a Service does. At the end every request has exactly one
// answer, its own; and the apps have executed every request exactly once, so
// nothing was lost, crossed or repeated.
func testDeletion(t *testing.T, n *node.Node, r *result) {
	both := []*pod{run(t, n, "minimal", "leaving", nil), run(t, n, "minimal", "staying", nil)}
	addrs := make([]string, len(both))
	for i, p := range both {
		addrs[i] = p.ready(t).Status.PodIP + ":8080"
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var accounts []account
	var callers sync.WaitGroup
	all := edges()
	for i := range loadCallers {
		e := all[i%len(all)]
		calls := make([]func(context.Context, string, time.Duration) attempt, len(addrs))
		for j, addr := range addrs {
			calls[j] = e.dial(addr)
		}
		callers.Go(func() {
			left := false
			for round := 0; ctx.Err() == nil; round++ {
				at := (i + round) % len(both)
				if left {
					at = 1
				}
				a := request(t.Context(), calls, account{edge: e.name, nonce: fmt.Sprintf("c%d-r%d", i, round)}, at)
				left = left || len(a.attempts) > 1
				mu.Lock()
				accounts = append(accounts, a)
				mu.Unlock()
			}
		})
	}
	time.Sleep(loadBefore)
	deleted := time.Now()
	if err := n.API().Delete(t.Context(), both[0].path); err != nil {
		t.Fatal(err)
	}
	ends := watchEnd(t, both[0])
	r.deletion = time.Since(deleted)
	time.Sleep(loadAfter)
	stop()
	callers.Wait()

	checkEnds(t, both[0], ends, r)
	balance(t, accounts, both, r)
}

// request calls one pod, and the other one where that does not take the call.
func request(ctx context.Context, calls []func(context.Context, string, time.Duration) attempt, a account, first int) account {
	nap := rand.N(longestNap)
	if rand.N(10) == 0 {
		nap = longCall
	}
	for try := range calls {
		at := (first + try) % len(calls)
		got := calls[at](ctx, a.nonce, nap)
		a.attempts, a.at = append(a.attempts, got), append(a.at, at)
		if got.outcome == answered || got.outcome == lost {
			break
		}
	}
	return a
}

// watchEnd follows a pod until it has gone, and returns the last that was seen of
// its containers.
func watchEnd(t *testing.T, p *pod) podStatus {
	t.Helper()
	var last podStatus
	for end := time.Now().Add(testkit.Limit()); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // its last states do not last
		s, err := p.look(t)
		if isGone(err) {
			return last
		}
		if err == nil {
			last = s
		}
	}
	t.Fatalf("pod %s is still there: %s", p.name, p.describe(t))
	return last
}

// checkEnds looks at how and in which order the containers ended.
func checkEnds(t *testing.T, p *pod, last podStatus, r *result) {
	t.Helper()
	for _, name := range []string{"sidecar", "fleet"} {
		if end := last.container(name).State.Terminated; end == nil || end.ExitCode != 0 {
			t.Errorf("%s ended as %+v, want exit code 0", name, last.container(name).State)
		}
	}
	draining, err := p.logs["sidecar"].find("msg", "draining")
	if err != nil {
		t.Error(err)
	}
	drained, err := p.logs["sidecar"].find("msg", "drained")
	if err != nil {
		t.Error(err)
	}
	ending, err := p.logs["fleet"].find("event", "ending")
	if err != nil {
		t.Error(err)
	}
	if !drained.At.Before(ending.At) {
		t.Errorf("the drain was over at %v, after the app was told to end at %v", drained.At, ending.At)
	}
	r.drain, r.appTold = drained.At.Sub(draining.At), ending.At.Sub(drained.At)
	for reason, message := range p.events(t) {
		if reason == "FailedPreStopHook" || reason == "FailedKillPod" {
			t.Errorf("the kubelet says %s: %s", reason, message)
		}
	}
}

// balance holds what callers were told against what the apps did.
func balance(t *testing.T, accounts []account, both []*pod, r *result) {
	t.Helper()
	executed := map[string]int{}
	for i, p := range both {
		for _, e := range p.logs["fleet"].all() {
			if e.text("event") == "begin" && e.text("procedure") == "/outrigger.demo.v1.Lab/Sleep" {
				executed[e.text("request_id")]++
				r.executions[i]++
			}
		}
	}
	r.requests = len(accounts)
	for _, a := range accounts {
		last := a.attempts[len(a.attempts)-1]
		switch {
		case last.outcome != answered:
			t.Errorf("%s: request %s was not answered: %v", a.edge, a.nonce, last.err)
		case last.nonce != a.nonce:
			t.Errorf("%s: request %s got the answer to %q", a.edge, a.nonce, last.nonce)
		case executed[a.nonce] != 1:
			t.Errorf("%s: request %s was executed %d times, after %d attempts", a.edge, a.nonce, executed[a.nonce], len(a.attempts))
		}
		delete(executed, a.nonce)
		for i, got := range a.attempts {
			switch got.outcome {
			case refused:
				r.refused++
				if a.at[i] != 0 {
					t.Errorf("%s: the pod that stays refused %s: %v", a.edge, a.nonce, got.err)
				}
				if !got.hinted {
					t.Errorf("%s: a refusal without a hint when to try again: %v", a.edge, got.err)
				}
			case unsent:
				r.unsent++
			default:
			}
		}
	}
	for nonce, times := range executed {
		t.Errorf("the apps executed %q %d times, and no caller knows of it", nonce, times)
	}
	if r.refused < loadCallers/2 || r.executions[0] == 0 || r.executions[1] == 0 {
		t.Errorf("nothing was shown: %d refusals, executions %v", r.refused, r.executions)
	}
}
