// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"google.golang.org/protobuf/types/known/durationpb"
)

// loops call a tool, one call after the other in each.
type loops struct {
	slots    *policy.Slots
	each     time.Duration
	answered atomic.Int64
	rejected atomic.Int64
	group    sync.WaitGroup
}

func (c *loops) open(ctx context.Context, n int, caller, tool string) {
	for range n {
		c.group.Go(func() {
			for ctx.Err() == nil {
				c.call(ctx, caller, tool)
			}
		})
	}
}

func (c *loops) call(ctx context.Context, caller, tool string) {
	p, err := c.slots.Acquire(ctx, caller, tool)
	if err != nil {
		c.rejected.Add(1)
		return
	}
	time.Sleep(c.each)
	p.Release(true)
	c.answered.Add(1)
}

// TestRejectedCallersThatComeBackAreServed: too many calls make early rejections begin. Then callers call in closed loops, and
// come back as soon as they are rejected. Their queue does not grow, so that rejections end.
func TestRejectedCallersThatComeBackAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := policy.FixedSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(4)), MaxQueueWait: durationpb.New(2 * time.Second)})
		flood := &loops{slots: s, each: 10 * time.Millisecond}
		for range 2000 { // 1,000 calls/s, where 400 fit
			flood.group.Go(func() { flood.call(ctx, "c", "t") })
			time.Sleep(time.Millisecond)
		}
		if flood.rejected.Load() < 500 {
			t.Fatalf("%d were rejected", flood.rejected.Load())
		}
		retrying := &loops{slots: s, each: 10 * time.Millisecond}
		retrying.open(ctx, 300, "c", "t") // 750 ms of work
		time.Sleep(6 * time.Second)
		before := retrying.rejected.Load()
		time.Sleep(5 * time.Second)
		if n := retrying.rejected.Load() - before; n > 0 {
			t.Errorf("%d of calls in closed loops were rejected", n)
		}
		cancel()
		flood.group.Wait()
		retrying.group.Wait()
	})
}

// TestABackendIsOfferedTooMuch: eight workers answer 800 calls a second. After two quiet seconds, more are offered. From one
// second later on, the workers do not rest, and what is answered has waited for little longer than a tenth of the time in the queue.
func TestABackendIsOfferedTooMuch(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		every time.Duration
		p99   time.Duration
	}{
		"1,600 a second": {time.Second / 1600, 300 * time.Millisecond},
		"3,200 a second": {time.Second / 3200, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := policy.NewSlots(nil, policy.SlotOptions{})
				b := &fakeBackend{workers: make(chan struct{}, 8), each: func() time.Duration { return 10 * time.Millisecond }}
				var mu sync.Mutex
				var took []time.Duration
				var all sync.WaitGroup
				start := time.Now()
				const quiet, much = 2 * time.Second, 6 * time.Second
				for time.Since(start) < much {
					all.Go(func() {
						due := time.Now()
						p, err := s.Acquire(t.Context(), "c", "t")
						if err != nil {
							return
						}
						b.call()
						p.Release(true)
						mu.Lock()
						defer mu.Unlock()
						if end := time.Since(start); end > quiet+time.Second && end <= much {
							took = append(took, time.Since(due))
						}
					})
					if time.Since(start) < quiet {
						time.Sleep(2 * time.Millisecond)
						continue
					}
					time.Sleep(row.every)
				}
				all.Wait()
				slices.Sort(took)
				if p99 := took[len(took)*99/100]; len(took) < 3*790 || p99 > row.p99 {
					t.Errorf("%d answered in 3 s, p50 %v, p99 %v", len(took), took[len(took)/2], p99)
				}
			})
		})
	}
}
