// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"sync/atomic"
	"time"
)

// Claim lets a running attempt be abandoned in favor of a retry. Code that finds during
// a call that its connection is probably dead asks for it. Without a claim, abandoning
// the call would turn a late response into a failure, because nothing would retry it.
// The zero value grants nothing; [Do] sets it.
type Claim struct {
	guard    *Guard
	deadline time.Time
	left     atomic.Int32 // attempts that may follow
	paused   time.Duration
	taken    atomic.Bool
}

// Claim reserves the next attempt, takes it from the budget, and reports whether that
// succeeded.
func (c *Claim) Claim() bool {
	switch {
	case c.taken.Load():
		return true
	case c.left.Load() <= 0, !c.deadline.IsZero() && time.Until(c.deadline) <= c.paused, !c.guard.budget.spend():
		return false
	}
	c.taken.Store(true)
	return true
}

// begin readies the claim for attempt n, counted from 1.
func (c *Claim) begin(g *Guard, deadline time.Time, n int) {
	if c == nil {
		return
	}
	c.guard, c.deadline, c.paused = g, deadline, g.opts.pause(n)
	c.taken.Store(false)
	c.left.Store(int32(g.opts.MaxAttempts - n))
}

// end reports whether the attempt was given up by claim.
func (c *Claim) end() bool {
	if c == nil {
		return false
	}
	c.left.Store(0)
	return c.taken.Load()
}
