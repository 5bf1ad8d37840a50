// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

func TestSlotsRunWaitAndRefuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 2, Queued: 1, Wait: 500 * time.Millisecond})
		for range 2 {
			if _, err := s.Acquire(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
		}
		waited := make(chan *errmap.Error, 1)
		go func() {
			wait, err := s.Acquire(t.Context(), "c")
			if wait != 400*time.Millisecond {
				t.Errorf("it waited %v", wait)
			}
			waited <- err
		}()
		synctest.Wait()
		_, err := s.Acquire(t.Context(), "c")
		if err == nil || err.Code != errmap.Unavailable || err.RetryAfter != 500*time.Millisecond {
			t.Errorf("with a full queue: %v", err)
		}
		if got := s.Stats(); got != (policy.SlotStats{Running: 2, Waiting: 1, Most: 2, Queued: 1, Full: 1}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(400 * time.Millisecond)
		s.Release("c")
		if err := <-waited; err != nil {
			t.Errorf("its turn: %v", err)
		}
		start := time.Now()
		if _, err := s.Acquire(t.Context(), "c"); err == nil || err.Code != errmap.Unavailable || time.Since(start) != 500*time.Millisecond {
			t.Errorf("in vain: %v after %v", err, time.Since(start))
		}
		s.Release("c")
		s.Release("c")
		if got := s.Stats(); got.Running != 0 || got.Waiting != 0 || got.Expired != 1 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

func TestWhoeverWaitsLongestIsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 1, Queued: 10})
		_, _ = s.Acquire(t.Context(), "c")
		var mu sync.Mutex
		var order []int
		for i := range 10 {
			go func() {
				if _, err := s.Acquire(t.Context(), "c"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				s.Release("c")
			}()
			synctest.Wait()
		}
		s.Release("c")
		synctest.Wait()
		if len(order) != 10 || !slices.IsSorted(order) {
			t.Errorf("%v", order)
		}
	})
}

func TestACallerThatLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 1})
		_, _ = s.Acquire(t.Context(), "c")
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if _, err := s.Acquire(gone, "c"); err == nil || err.Code != errmap.Cancelled {
			t.Errorf("cancelled: %v", err)
		}
		due, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.Acquire(due, "c"); err == nil || err.Code != errmap.Timeout {
			t.Errorf("out of time: %v", err)
		}
		if got := s.Stats(); got.Waiting != 0 || got.Running != 1 || got.Full+got.Expired != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestNoSlotsBoundNothing(t *testing.T) {
	t.Parallel()
	var s *policy.Slots
	if _, err := s.Acquire(t.Context(), "c"); err != nil {
		t.Error(err)
	}
	s.Release("c")
	if s.Stats() != (policy.SlotStats{}) {
		t.Errorf("%+v", s.Stats())
	}
}

func BenchmarkSlots(b *testing.B) {
	s := policy.NewSlots(policy.SlotOptions{})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Acquire(ctx, "c"); err == nil {
			s.Release("c")
		}
	}
}

// TestACallerWithItsShareWaitsAlone: its calls beyond the share wait, those of
// others behind them run at once, and what is refused is refused for its own sake.
func TestACallerWithItsShareWaitsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 10, Queued: 5, Wait: time.Second, Share: share.Percent(80)})
		refused := make(chan *errmap.Error, 20)
		for range 20 {
			go func() {
				if _, err := s.Acquire(t.Context(), "greedy"); err != nil {
					refused <- err
				}
			}()
			synctest.Wait()
		}
		if got := s.Stats(); got.Running != 8 || got.Waiting != 4 || got.Over != 8 || got.Full != 0 {
			t.Errorf("one caller: %+v", got)
		}
		for range 2 {
			if waited, err := s.Acquire(t.Context(), "other"); err != nil || waited != 0 {
				t.Errorf("another caller waits %v: %v", waited, err)
			}
		}
		s.Release("other")
		s.Release("greedy")
		synctest.Wait()
		if got := s.Stats(); got.Running != 9 || got.Waiting != 3 {
			t.Errorf("after one has ended: %+v", got)
		}
		time.Sleep(2 * time.Second)
		if got := s.Stats(); got.Running != 9 || got.Waiting != 0 || got.Over != 11 || got.Expired != 0 {
			t.Errorf("after the wait: %+v", got)
		}
		for range 11 {
			if err := <-refused; err.Code != errmap.RateLimited || err.RetryAfter != time.Second {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestWaitIsOutsideTheQueue: who is held back otherwise waits as long as it takes.
func TestWaitIsOutsideTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 1, Queued: 1})
		_, _ = s.Acquire(t.Context(), "c")
		done := make(chan *errmap.Error, 3)
		for range 3 {
			go func() { done <- s.Wait(t.Context(), "stdio") }()
		}
		time.Sleep(time.Minute)
		s.Release("c")
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
			s.Release("stdio")
		}
		if got := s.Stats(); got.Running != 0 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	})
}
