// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// begins notes when it was begun.
type begins struct {
	silent silent
	at     time.Time
}

func (b *begins) begin() { b.at = time.Now() }

// A call that is answered in time pays for a place in a list: no timer, no allocation.
func TestACallThatIsNotSilentAllocatesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun
	l := silence{after: time.Hour}
	b := &begins{}
	b.silent.of = b
	if n := testing.AllocsPerRun(100, func() {
		l.await(&b.silent)
		l.leave(&b.silent)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	l.timer.Stop()
}

// Requests that come and go in any order: those that stay are begun when they are due, once, and no others.
func TestTheSilentAreBegunWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after, calls = 10 * time.Second, 300
		random := rand.New(rand.NewPCG(1, 2))
		l := silence{after: after}
		came, left := make([]time.Time, calls), make([]time.Time, calls)
		all := make([]begins, calls)
		for i := range all {
			b := &all[i]
			b.silent.of = b
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			came[i] = time.Now()
			l.await(&b.silent)
			stays := time.Duration(random.IntN(20_000))*time.Millisecond + time.Microsecond
			left[i] = came[i].Add(stays)
			time.AfterFunc(stays, func() { l.leave(&b.silent) })
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i := range all {
			due := came[i].Add(after)
			switch at := all[i].at; {
			case left[i].Before(due):
				if !at.IsZero() {
					t.Errorf("%d left after %v, and was begun", i, left[i].Sub(came[i]))
				}
			case !at.Equal(due):
				t.Errorf("%d was begun at %v, due at %v", i, at, due)
			}
		}
		if l.ring.after != &l.ring || l.isArmed {
			t.Errorf("left over: %+v", &l)
		}
	})
}
