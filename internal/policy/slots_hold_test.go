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

// connections call a tool in closed loops, one call after the other on each.
type connections struct {
	slots    *policy.Slots
	each     time.Duration
	answered atomic.Int64
	rejected atomic.Int64
	group    sync.WaitGroup
}

func (c *connections) open(ctx context.Context, n int, caller, tool string) {
	for range n {
		c.group.Go(func() {
			on, connection := c.slots.Connection(ctx)
			for ctx.Err() == nil {
				c.call(on, caller, tool)
				connection.Wait(ctx.Done())
			}
		})
	}
}

func (c *connections) call(ctx context.Context, caller, tool string) {
	p, err := c.slots.Acquire(ctx, caller, tool)
	if err != nil {
		c.rejected.Add(1)
		return
	}
	time.Sleep(c.each)
	p.Release(true)
	c.answered.Add(1)
}

// TestConnectionsOfALongQueueAreHeld: where a tool works off a long queue of one caller fast, most of its connections are not
// read. Nothing is rejected, nothing idles, and other callers are not held.
func TestConnectionsOfALongQueueAreHeld(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		each                           time.Duration
		least, most, held, fewestCalls int64
	}{
		"16,000 calls/s": {each: time.Millisecond, least: 100, most: 300, held: 1500, fewestCalls: 15_500},
		"800 calls/s":    {each: 20 * time.Millisecond, least: 300, most: 2000, held: 0, fewestCalls: 780},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				all := &connections{slots: policy.NewSlots(policy.SlotOptions{Most: 16, Wait: 2 * time.Second, Fixed: true}), each: row.each}
				all.open(ctx, 2000, "busy", "t")
				time.Sleep(5*time.Second + row.each/2)
				before := all.answered.Load()
				time.Sleep(time.Second)
				got := all.slots.Stats()
				if n := all.answered.Load() - before; n < row.fewestCalls {
					t.Errorf("%d calls in a second, want at least %d", n, row.fewestCalls)
				}
				if int64(got.Waiting) < row.least || int64(got.Waiting) > row.most || int64(got.Held) < row.held || row.held == 0 && got.Held > 0 {
					t.Errorf("%d wait, %d are held; want %d to %d, and at least %d", got.Waiting, got.Held, row.least, row.most, row.held)
				}
				if row.held > 0 && all.rejected.Load() > 0 {
					t.Errorf("%d were rejected", all.rejected.Load())
				}
				quiet := &connections{slots: all.slots, each: row.each}
				on, connection := all.slots.Connection(ctx)
				start := time.Now()
				quiet.call(on, "quiet", "t")
				connection.Wait(ctx.Done())
				if took := time.Since(start); took > 3*row.each {
					t.Errorf("another caller waited %v", took)
				}
				cancel()
				all.group.Wait()
				if got := all.slots.Stats(); got.Held+got.Running+got.Waiting != 0 {
					t.Errorf("at the end: %+v", got)
				}
			})
		})
	}
}

// TestAHeldConnectionIsLetGo when its time is up, although the queue is as long as before.
func TestAHeldConnectionIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		const wait = 2 * time.Second
		s := policy.NewSlots(policy.SlotOptions{Most: 16, Wait: wait, Fixed: true})
		all := &connections{slots: s, each: time.Millisecond}
		all.open(ctx, 2000, "c", "t")
		time.Sleep(time.Second + time.Millisecond/2)
		on, connection := s.Connection(ctx)
		held := time.Duration(0)
		for range 50 { // at this moment the queue may be one call too short
			all.call(on, "c", "t")
			start := time.Now()
			connection.Wait(ctx.Done())
			held = max(held, time.Since(start))
		}
		if held == 0 || held > wait/2 {
			t.Errorf("held for %v, want up to %v", held, wait/2)
		}
		cancel()
		all.group.Wait()
	})
}

// TestRejectedCallersThatComeBackAreServed: too many calls make early rejections begin. Then callers call in closed loops, and
// come back as soon as they are rejected. Their queue does not grow, so that rejections end.
func TestRejectedCallersThatComeBackAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := policy.NewSlots(policy.SlotOptions{Most: 4, Wait: 2 * time.Second, Fixed: true})
		flood := &connections{slots: s, each: 10 * time.Millisecond}
		for range 2000 { // 1,000 calls/s, where 400 fit
			flood.group.Go(func() { flood.call(ctx, "c", "t") })
			time.Sleep(time.Millisecond)
		}
		if flood.rejected.Load() < 500 {
			t.Fatalf("%d were rejected", flood.rejected.Load())
		}
		loops := &connections{slots: s, each: 10 * time.Millisecond}
		loops.open(ctx, 300, "c", "t") // 750 ms of work
		time.Sleep(6 * time.Second)
		before := loops.rejected.Load()
		time.Sleep(5 * time.Second)
		if n := loops.rejected.Load() - before; n > 0 {
			t.Errorf("%d of calls in closed loops were rejected", n)
		}
		cancel()
		flood.group.Wait()
		loops.group.Wait()
	})
}
