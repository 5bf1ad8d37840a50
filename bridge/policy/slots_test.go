// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge/policy"
	"github.com/outrigger-mcp/outrigger/errmap"
)

func TestSlotsRunWaitAndRefuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 2, Queued: 1, Wait: 500 * time.Millisecond})
		for range 2 {
			if _, err := s.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		waited := make(chan *errmap.Error, 1)
		go func() {
			wait, err := s.Take(t.Context())
			if wait != 400*time.Millisecond {
				t.Errorf("it waited %v", wait)
			}
			waited <- err
		}()
		synctest.Wait()
		_, err := s.Take(t.Context())
		if err == nil || err.Code != errmap.Unavailable || err.RetryAfter != 500*time.Millisecond {
			t.Errorf("with a full queue: %v", err)
		}
		if got := s.Stats(); got != (policy.SlotStats{Running: 2, Waiting: 1, Most: 2, Queued: 1, Full: 1}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(400 * time.Millisecond)
		s.Give()
		if err := <-waited; err != nil {
			t.Errorf("its turn: %v", err)
		}
		start := time.Now()
		if _, err := s.Take(t.Context()); err == nil || err.Code != errmap.Unavailable || time.Since(start) != 500*time.Millisecond {
			t.Errorf("in vain: %v after %v", err, time.Since(start))
		}
		s.Give()
		s.Give()
		if got := s.Stats(); got.Running != 0 || got.Waiting != 0 || got.Expired != 1 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

func TestWhoeverWaitsLongestIsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(policy.SlotOptions{Most: 1, Queued: 10})
		_, _ = s.Take(t.Context())
		var mu sync.Mutex
		var order []int
		for i := range 10 {
			go func() {
				if _, err := s.Take(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				s.Give()
			}()
			synctest.Wait()
		}
		s.Give()
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
		_, _ = s.Take(t.Context())
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if _, err := s.Take(gone); err == nil || err.Code != errmap.Cancelled {
			t.Errorf("cancelled: %v", err)
		}
		due, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.Take(due); err == nil || err.Code != errmap.Timeout {
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
	if _, err := s.Take(t.Context()); err != nil {
		t.Error(err)
	}
	s.Give()
	if s.Stats() != (policy.SlotStats{}) {
		t.Errorf("%+v", s.Stats())
	}
}

func BenchmarkSlots(b *testing.B) {
	s := policy.NewSlots(policy.SlotOptions{})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(ctx); err == nil {
			s.Give()
		}
	}
}
