// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"context"
	"sync"
	"time"
)

// steps is in how many parts a timeout is counted.
const steps = 10

// WithTimeout is like context.WithTimeout, but counts only time in which this process
// ran. It counts the timeout in ten steps, and a stall of any length costs at most one
// step. What the peer did during the stall can therefore be processed before the
// timeout. The context has no deadline other than its parent's.
func WithTimeout(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	c := &patient{Context: parent, done: make(chan struct{}), left: steps}
	step := max(timeout/steps, 1)
	c.mu.Lock()
	c.timer = time.AfterFunc(step, func() { c.step(step) })
	c.mu.Unlock()
	// After the timer, which end stops: the parent may be over already.
	stop := context.AfterFunc(parent, func() { c.end(parent.Err()) })
	return c, func() {
		stop()
		c.end(context.Canceled)
	}
}

// patient is a context that ends after some steps.
type patient struct {
	context.Context //nolint:containedctx // it is one

	done chan struct{}

	mu    sync.Mutex
	err   error
	left  int
	timer *time.Timer
}

func (c *patient) step(step time.Duration) {
	c.mu.Lock()
	c.left--
	isOver := c.left <= 0
	if !isOver && c.err == nil {
		c.timer.Reset(step)
	}
	c.mu.Unlock()
	if isOver {
		c.end(context.DeadlineExceeded)
	}
}

// end ends the context; only the first error counts.
func (c *patient) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.timer.Stop()
	close(c.done)
}

// Done implements [context.Context].
func (c *patient) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *patient) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
