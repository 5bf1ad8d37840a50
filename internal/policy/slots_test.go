// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"google.golang.org/protobuf/types/known/durationpb"
)

// take acquires a place that has to be free.
func take(t *testing.T, s *policy.Slots, caller, tool string) *policy.Place {
	t.Helper()
	p, err := s.Acquire(t.Context(), caller, tool)
	if err != nil || p.Waited != 0 {
		t.Fatalf("%s calls %s: waited %v, %v", caller, tool, p.Waited, err)
	}
	return &p
}

func TestSlotsRunWaitAndReject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(2)), MaxQueuedCalls: new(int32(1)), MaxQueueWait: durationpb.New(500 * time.Millisecond)}, policy.SlotOptions{})
		first, second := take(t, s, "c", "t"), take(t, s, "c", "t")
		waited := make(chan policy.Place, 1)
		go func() {
			p, err := s.Acquire(t.Context(), "c", "t")
			if p.Waited != 90*time.Millisecond || err != nil {
				t.Errorf("it waited %v: %v", p.Waited, err)
			}
			waited <- p
		}()
		synctest.Wait()
		_, err := s.Acquire(t.Context(), "c", "t")
		if err == nil || err.Code != errmap.Unavailable || err.RetryAfter != 500*time.Millisecond {
			t.Errorf("with a full queue: %v", err)
		}
		if got := s.Stats(); got != (policy.SlotStats{Running: 2, Waiting: 1, Most: 2, Queued: 1, Full: 1}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(90 * time.Millisecond)
		first.Release(true)
		first.Release(true) // does nothing
		third := <-waited
		start := time.Now()
		if _, err := s.Acquire(t.Context(), "c", "t"); err == nil || err.Code != errmap.Unavailable || time.Since(start) > 500*time.Millisecond {
			t.Errorf("in vain: %v after %v", err, time.Since(start))
		}
		second.Release(true)
		third.Release(true)
		if got := s.Stats(); got.Running != 0 || got.Waiting != 0 || got.Expired != 1 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// order is in which order calls got their turn.
type order struct {
	mu    sync.Mutex
	names []string
}

// call waits in the queue, and ends at once when its turn comes.
func (o *order) call(t *testing.T, s *policy.Slots, caller, tool string) {
	t.Helper()
	go func() {
		p, err := s.Wait(t.Context(), caller, tool)
		if err != nil {
			t.Error(err)
		}
		o.mu.Lock()
		o.names = append(o.names, caller+" "+tool)
		o.mu.Unlock()
		time.Sleep(time.Millisecond)
		p.Release(true)
	}()
	synctest.Wait()
	time.Sleep(time.Microsecond)
}

// TestTheQueueIsFair: between callers of a tool, between tools, and by the time of waiting.
func TestTheQueueIsFair(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ held, calls, want []string }{
		"the longest wait first": {[]string{"a t"}, []string{"a t", "b t", "a t", "b t"}, []string{"a t", "b t", "a t", "b t"}},
		"a quiet caller beside a busy one": {
			[]string{"busy t", "busy t"}, []string{"busy t", "busy t", "busy t", "quiet t"}, []string{"quiet t", "busy t", "busy t", "busy t"},
		},
		"a fast tool beside a slow one": {
			[]string{"c slow", "c slow"}, []string{"c slow", "c slow", "c fast"}, []string{"c fast", "c slow", "c slow"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, o := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(len(row.held)))}, policy.SlotOptions{}), new(order)
				var held []*policy.Place
				for _, who := range row.held {
					var caller, tool string
					_, _ = fmt.Sscan(who, &caller, &tool)
					held = append(held, take(t, s, caller, tool))
				}
				for _, who := range row.calls {
					var caller, tool string
					_, _ = fmt.Sscan(who, &caller, &tool)
					o.call(t, s, caller, tool)
				}
				held[0].Release(true)
				time.Sleep(time.Second)
				o.mu.Lock()
				defer o.mu.Unlock()
				if !slices.Equal(o.names, row.want) {
					t.Errorf("got %q, want %q", o.names, row.want)
				}
				for _, p := range held[1:] {
					p.Release(true)
				}
			})
		})
	}
}

func TestACallerThatLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1))}, policy.SlotOptions{})
		take(t, s, "c", "t")
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if _, err := s.Acquire(gone, "c", "t"); err == nil || err.Code != errmap.Cancelled {
			t.Errorf("cancelled: %v", err)
		}
		due, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.Acquire(due, "c", "t"); err == nil || err.Code != errmap.Timeout {
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
	p, err := s.Acquire(t.Context(), "c", "t")
	if err != nil {
		t.Error(err)
	}
	p.Release(true)
	if s.Stats() != (policy.SlotStats{}) {
		t.Errorf("%+v", s.Stats())
	}
}

// TestAShareBindsWhileOthersAreAbout: a caller or tool that is alone may have every place.
func TestAShareBindsWhileOthersAreAbout(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts        *configv1.Limits
		busy, other [2]string
		code        errmap.Code
	}{
		"a caller": {&configv1.Limits{CallerSharePercent: new(int32(80))}, [2]string{"busy", "t"}, [2]string{"other", "t"}, errmap.RateLimited},
		"a tool":   {&configv1.Limits{ToolSharePercent: new(int32(80))}, [2]string{"c", "slow"}, [2]string{"c", "fast"}, errmap.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				row.opts = cmp.Or(row.opts, &configv1.Limits{})
				row.opts.MaxConcurrentCalls, row.opts.MaxQueueWait = new(int32(10)), durationpb.New(time.Second)
				s := policy.FixedSlots(row.opts)
				var held []*policy.Place
				for range 10 {
					held = append(held, take(t, s, row.busy[0], row.busy[1]))
				}
				for _, p := range held[7:] {
					p.Release(true)
				}
				other := take(t, s, row.other[0], row.other[1])
				take(t, s, row.busy[0], row.busy[1])
				if _, err := s.Acquire(t.Context(), row.busy[0], row.busy[1]); err == nil || err.Code != row.code {
					t.Errorf("over the share: %v", err)
				}
				other.Release(true)
				time.Sleep(11 * time.Second)
				take(t, s, row.busy[0], row.busy[1])
				take(t, s, row.busy[0], row.busy[1])
			})
		})
	}
}

// TestTheQueueIsShared: a caller that fills it leaves room for others.
func TestTheQueueIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueuedCalls: new(int32(10)), MaxQueueWait: durationpb.New(time.Second), CallerSharePercent: new(int32(80))}, policy.SlotOptions{})
		held := take(t, s, "busy", "t")
		rejected := make(chan *errmap.Error, 12)
		for range 12 {
			go func() {
				p, err := s.Acquire(t.Context(), "busy", "t")
				rejected <- err
				p.Release(true)
			}()
			synctest.Wait()
		}
		if got := s.Stats(); got.Waiting != 8 || got.Over != 4 {
			t.Errorf("one caller: %+v", got)
		}
		for range 4 {
			if err := <-rejected; err == nil || err.Code != errmap.RateLimited || err.RetryAfter != time.Second {
				t.Errorf("got %v", err)
			}
		}
		done := make(chan *errmap.Error)
		go func() {
			p, err := s.Acquire(t.Context(), "other", "t")
			p.Release(true)
			done <- err
		}()
		synctest.Wait()
		held.Release(true)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAStandingQueueIsCutShort: a burst that passes is served whole, however long its last call waits. What does not pass
// is rejected early, and those that are served are not late: a tenth of the time in the queue, and what is added while early
// rejections pause.
func TestAStandingQueueIsCutShort(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		calls   int
		every   time.Duration
		longest time.Duration
		all     bool
	}{
		"a burst":        {calls: 40, longest: 400 * time.Millisecond, all: true},
		"twice too many": {calls: 1000, every: 5 * time.Millisecond, longest: 320 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := policy.FixedSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueueWait: durationpb.New(2 * time.Second)})
				var all sync.WaitGroup
				var mu sync.Mutex
				served := 0
				begun := time.Now()
				for range row.calls {
					all.Go(func() {
						p, err := s.Acquire(t.Context(), "c", "t")
						if err != nil {
							return
						}
						time.Sleep(10 * time.Millisecond)
						p.Release(true)
						mu.Lock()
						defer mu.Unlock()
						served++
						if time.Since(begun) > 2*time.Second && p.Waited > row.longest {
							t.Errorf("one that was served waited %v", p.Waited)
						}
					})
					time.Sleep(row.every)
				}
				all.Wait()
				if row.all && served != row.calls || served < 40 {
					t.Errorf("%d of %d were served", served, row.calls)
				}
				if !row.all && served < 480 {
					t.Errorf("%d were served: the tool was idle", served)
				}
				if got := s.Stats(); got.Running+got.Waiting != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// TestCallersThatWaitForAnswersAreServed: their queue is long, and does not grow. None is rejected within its time.
func TestCallersThatWaitForAnswersAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.FixedSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueueWait: durationpb.New(2 * time.Second)})
		var all sync.WaitGroup
		for range 150 {
			all.Go(func() {
				for range 10 {
					p, err := s.Acquire(t.Context(), "c", "t")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					p.Release(true)
				}
			})
		}
		all.Wait()
	})
}

// TestTimeInWhichTheProcessStoodStillIsNoWaiting: a call that was in the queue then is served, and the time is not counted
// against its timeout. A clock that has been stopped looks like one whose process has.
func TestTimeInWhichTheProcessStoodStillIsNoWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := peer.NewClock()
		s := policy.FixedSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueueWait: durationpb.New(time.Second)}, clock)
		held := take(t, s, "c", "t")
		clock.Stop()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			p, err := s.Acquire(t.Context(), "c", "t")
			if err != nil || p.Waited > time.Second {
				t.Errorf("waited %v, %v", p.Waited, err)
			}
			p.Release(true)
		})
		time.Sleep(10 * time.Second)
		held.Release(true)
		waiting.Wait()
	})
}

// TestRejectionsArePaced: callers that come back at once do not make the sidecar busy with rejections.
func TestRejectionsArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.FixedSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueueWait: durationpb.New(2 * time.Second)})
		held := take(t, s, "c", "t")
		ctx, stop := context.WithCancel(t.Context())
		for range 10_000 {
			go func() {
				for ctx.Err() == nil {
					_, _ = s.Acquire(ctx, "c", "t")
				}
			}()
		}
		time.Sleep(3 * time.Second)
		before := s.Stats().Expired
		time.Sleep(time.Second)
		// 5,000 at that pace, and in any case those that waited for 2 s: 10,000 callers make at most 5,000 of them.
		if got := s.Stats().Expired - before; got > 11_000 {
			t.Errorf("%d rejections in a second", got)
		}
		stop()
		held.Release(true)
		synctest.Wait()
	})
}

// TestWaitIsOutsideTheQueue: who is held back otherwise waits as long as it takes.
func TestWaitIsOutsideTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueuedCalls: new(int32(1))}, policy.SlotOptions{})
		held := take(t, s, "c", "t")
		done := make(chan *errmap.Error, 3)
		for range 3 {
			go func() {
				p, err := s.Wait(t.Context(), "stdio", "t")
				p.Release(true)
				done <- err
			}()
		}
		time.Sleep(time.Minute)
		held.Release(true)
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := s.Stats(); got.Running != 0 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestNothingIsLostAmongManyCallers: every call gets its turn or an error, whatever the order in which they come, leave and
// end, and all places are free afterwards.
func TestNothingIsLostAmongManyCallers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(5)), MaxQueuedCalls: new(int32(50)), MaxQueueWait: durationpb.New(50 * time.Millisecond), CallerSharePercent: new(int32(80)), ToolSharePercent: new(int32(80))}, policy.SlotOptions{})
			var all sync.WaitGroup
			for range 500 {
				caller, tool := fmt.Sprint("c", random.IntN(7)), fmt.Sprint("t", random.IntN(3))
				hold, give := time.Duration(random.IntN(20))*time.Millisecond, time.Duration(1+random.IntN(90))*time.Millisecond
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), give)
					defer cancel()
					p, err := s.Acquire(ctx, caller, tool)
					if err != nil {
						return
					}
					if got := s.Stats().Running; got > 5 {
						t.Errorf("%d run", got)
					}
					time.Sleep(hold)
					p.Release(hold%2 == 0)
				})
				time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
			}
			all.Wait()
			if got := s.Stats(); got.Running != 0 || got.Waiting != 0 {
				t.Errorf("seed %d: %+v", seed, got)
			}
		})
	}
}

func BenchmarkSlots(b *testing.B) {
	s := policy.NewSlots(nil, policy.SlotOptions{})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if p, err := s.Acquire(ctx, "c", "t"); err == nil {
			p.Release(true)
		}
	}
}
