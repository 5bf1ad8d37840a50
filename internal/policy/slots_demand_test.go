// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/policy"
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
		s := policy.NewSlots(policy.SlotOptions{Most: 4, Wait: 2 * time.Second, Fixed: true})
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
