// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// work is CPU time that a message takes.
const work = 10 * time.Millisecond

// desk has messages translated, and notes their order.
type desk struct {
	slots *policy.Slots
	wait  sync.WaitGroup
	mu    sync.Mutex
	busy  int
	most  int
	order []string
}

// message translates a message in its turn. The name of the tool is "fast" or "slow".
func (d *desk) message(ctx context.Context, caller, tool string, n int, isRequest bool) {
	take := d.slots.TurnForAnswer
	if isRequest {
		take = d.slots.TurnForRequest
	}
	d.wait.Go(func() {
		turn := take(ctx, caller, tool, n)
		d.mu.Lock()
		d.busy++
		d.most = max(d.most, d.busy)
		d.mu.Unlock()
		time.Sleep(work)
		d.mu.Lock()
		d.busy--
		d.order = append(d.order, caller)
		d.mu.Unlock()
		turn.End()
	})
	synctest.Wait() // those before it have their place
}

// seen lets callers be active.
func seen(t *testing.T, s *policy.Slots, flows ...[2]string) {
	t.Helper()
	for _, f := range flows {
		take(t, s, f[0], f[1]).Release(false)
	}
}

func TestTurnsOfAnswers(t *testing.T) {
	t.Parallel()
	const many = 100
	for name, test := range map[string]struct {
		others    [][2]string
		n         int
		isRequest bool
		most      int
	}{
		"alone":                    {nil, 10, false, many},
		"beside another tool":      {[][2]string{{"a", "fast"}}, 10, false, 2},
		"beside another caller":    {[][2]string{{"b", "slow"}}, 10, false, 2},
		"small requests":           {[][2]string{{"b", "slow"}}, policy.LargeMessage - 1, true, many},
		"large requests":           {[][2]string{{"b", "slow"}}, policy.LargeMessage, true, 2},
		"large requests, alone":    {nil, policy.LargeMessage, true, many},
		"large answers":            {[][2]string{{"b", "slow"}}, policy.LargeMessage, false, 2},
		"answers that are not yet": {[][2]string{{"b", "slow"}}, policy.LargeMessage - 1, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &desk{slots: policy.NewSlots(nil, policy.SlotOptions{Turns: 2})}
				seen(t, d.slots, append(test.others, [2]string{"a", "slow"})...)
				start := time.Now()
				for range many {
					d.message(t.Context(), "a", "slow", test.n, test.isRequest)
				}
				d.wait.Wait()
				if d.most != test.most {
					t.Errorf("%d at once, want %d", d.most, test.most)
				}
				if took := time.Since(start); took != work*many/time.Duration(test.most) {
					t.Errorf("took %v: a turn was not used", took)
				}
			})
		})
	}
}

// However many answers come at the same time, those of another tool or caller do not wait for them.
func TestAnAnswerBesideAThousand(t *testing.T) {
	t.Parallel()
	for _, other := range [][2]string{{"a", "fast"}, {"b", "slow"}} {
		synctest.Test(t, func(t *testing.T) {
			s := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
			seen(t, s, other, [2]string{"a", "slow"})
			d := &desk{slots: s}
			for range 1000 {
				d.message(t.Context(), "a", "slow", 10, false)
			}
			if got := s.Turns()[policy.AnswerTurn]; got != (policy.TurnStats{Waiting: 999, Waits: 999}) {
				t.Errorf("%+v", got)
			}
			start := time.Now()
			s.TurnForAnswer(t.Context(), other[0], other[1], 10).End()
			if took := time.Since(start); took != 0 {
				t.Errorf("%v waited %v", other, took)
			}
			d.wait.Wait()
			if got := s.Turns()[policy.AnswerTurn]; got != (policy.TurnStats{Waits: 999}) {
				t.Errorf("at the end: %+v", got)
			}
		})
	}
}

// Large messages of callers alternate, whatever their number, tool and direction.
func TestLargeMessagesAreFairBetweenCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
		seen(t, s, [2]string{"a", "slow"}, [2]string{"b", "slow"})
		d := &desk{slots: s}
		for i := range 6 {
			d.message(t.Context(), "a", "slow", policy.LargeMessage, i%2 == 0)
		}
		d.message(t.Context(), "b", "slow", policy.LargeMessage, true)
		d.message(t.Context(), "b", "fast", policy.LargeMessage, false)
		d.wait.Wait()
		if got := strings.Join(d.order, ""); got != "aababaaa" {
			t.Errorf("order %s", got)
		}
		if d.most != 1 {
			t.Errorf("%d at once", d.most)
		}
	})
}

// A call whose caller has gone away waits no longer, and leaves the turns of the others as they are.
func TestAWaitForATurnEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, policy.LargeMessage} {
		synctest.Test(t, func(t *testing.T) {
			s := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
			seen(t, s, [2]string{"a", "slow"}, [2]string{"b", "slow"})
			first := s.TurnForAnswer(t.Context(), "a", "slow", n)
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan policy.Turn)
			go func() { gone <- s.TurnForAnswer(ctx, "a", "slow", n) }()
			synctest.Wait()
			d := &desk{slots: s}
			d.message(t.Context(), "a", "slow", n, false)
			cancel()
			if turn := <-gone; turn != (policy.Turn{}) {
				t.Error("it got a turn")
			}
			start := time.Now()
			first.End()
			d.wait.Wait()
			if took := time.Since(start); took != work {
				t.Errorf("the one behind it took %v", took)
			}
			s.TurnForAnswer(t.Context(), "a", "slow", n).End() // there is one again
			for kind, got := range s.Turns() {
				if got.Waiting != 0 {
					t.Errorf("%v: %+v", kind, got)
				}
			}
		})
	}
}

// Calls end and begin turns in any order, and none is lost.
func TestNoTurnIsLost(t *testing.T) {
	t.Parallel()
	s := policy.NewSlots(nil, policy.SlotOptions{Turns: 1})
	seen(t, s, [2]string{"a", "slow"}, [2]string{"b", "fast"})
	var wait sync.WaitGroup
	for i := range 64 {
		wait.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+j)%3 == 0 {
					time.AfterFunc(time.Microsecond, cancel)
				}
				n := (i + j) % 2 * policy.LargeMessage
				turn := s.TurnForAnswer(ctx, []string{"a", "b"}[i%2], []string{"slow", "fast"}[j%2], n)
				turn.End()
				cancel()
			}
		})
	}
	wait.Wait()
	for _, n := range []int{10, policy.LargeMessage} {
		s.TurnForAnswer(t.Context(), "a", "slow", n).End()
	}
	for kind, got := range s.Turns() {
		if got.Waiting != 0 {
			t.Errorf("%v: %+v", kind, got)
		}
	}
}

// Without Slots there are no turns.
func TestNoSlotsNoTurns(t *testing.T) {
	t.Parallel()
	var s *policy.Slots
	s.TurnForRequest(t.Context(), "a", "slow", policy.LargeMessage).End()
	s.TurnForAnswer(t.Context(), "a", "slow", 1).End()
	if got := s.Turns(); got != nil {
		t.Errorf("%+v", got)
	}
}

func BenchmarkTurn(b *testing.B) {
	for name, others := range map[string]bool{"alone": false, "shared": true} {
		b.Run(name, func(b *testing.B) {
			s := policy.NewSlots(nil, policy.SlotOptions{})
			ctx := context.Background()
			if others {
				if p, err := s.Acquire(ctx, "other", "t"); err == nil {
					p.Release(true)
				}
			}
			if p, err := s.Acquire(ctx, "c", "t"); err == nil {
				p.Release(true)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.TurnForAnswer(ctx, "c", "t", 10).End()
			}
		})
	}
}
