// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAClockThatIsLateSaysSo moves the last look back, as a stop of the process
// does.
func TestAClockThatIsLateSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		mark := c.Mark()
		time.Sleep(10 * time.Second)
		if got := c.Since(mark); got != 0 {
			t.Errorf("%v without a stop", got)
		}
		if lag := time.Now().UnixNano() - c.Now(); lag < 0 || lag > int64(every) {
			t.Errorf("the time is %v old", time.Duration(lag))
		}
		last := *c.last.Load()
		last.at = last.at.Add(-5 * time.Second)
		c.last.Store(&last)
		if got := c.Since(mark); got < 4*time.Second {
			t.Errorf("%v at once after a stop", got)
		}
		time.Sleep(time.Second)
		if got := c.Since(mark); got < 4*time.Second || got > 6*time.Second {
			t.Errorf("%v after a stop of 5 s", got)
		}
		if got := c.Since(c.Mark()); got != 0 {
			t.Errorf("%v since the present", got)
		}
	})
	var none *Clock
	if none.Since(none.Mark()) != 0 || none.Now() == 0 {
		t.Error("a nil clock is stopped")
	}
	none.Stop()
}

// TestATimeoutIsCountedInSteps: a time of standing still costs one step.
func TestATimeoutIsCountedInSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		<-ctx.Done()
		if took := time.Since(began); took != 5*time.Second || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("%v after %v", ctx.Err(), took)
		}
		p := &patient{left: steps, done: make(chan struct{}), timer: time.NewTimer(time.Hour)}
		p.step(time.Hour) // fires long after it was due
		if p.err != nil || p.left != steps-1 {
			t.Errorf("%v, %d steps left", p.err, p.left)
		}
		p.timer.Stop()

		parent, end := context.WithCancel(t.Context())
		ctx, cancel = WithTimeout(parent, time.Hour)
		end()
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%v", ctx.Err())
		}
		cancel()
		ctx, cancel = WithTimeout(t.Context(), time.Hour)
		cancel()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%v", ctx.Err())
		}
	})
}

// TestAParentThatIsOver ends the context, at whatever moment it is noticed.
func TestAParentThatIsOver(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10000 {
		ctx, stop := WithTimeout(parent, time.Minute)
		<-ctx.Done()
		if ctx.Err() == nil {
			t.Error("over without an error")
		}
		stop()
	}
}
