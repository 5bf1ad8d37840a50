// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// every is how often a Clock looks: rarely enough to cost nothing, often enough
	// for a time that is read without asking the system.
	every = 250 * time.Millisecond
	// tolerated is how late a look may be: the garbage collector and a busy machine
	// delay some by less.
	tolerated = 200 * time.Millisecond
)

// Clock measures the time in which the process did not run. Make one with [NewClock], and
// end it with Stop.
type Clock struct {
	coarse, lost atomic.Int64 // nanoseconds
	stop, done   chan struct{}
	once         sync.Once

	mu   sync.Mutex
	last time.Time
}

// NewClock returns a running Clock.
func NewClock() *Clock {
	c := &Clock{stop: make(chan struct{}), done: make(chan struct{}), last: time.Now()}
	c.coarse.Store(c.last.UnixNano())
	go c.run()
	return c
}

// Stop ends the Clock and waits for its end. It may be called twice, and on nil.
func (c *Clock) Stop() {
	if c == nil {
		return
	}
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

func (c *Clock) run() {
	defer close(c.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		c.look()
	}
}

// look notes how late it is. A goroutine that a timer wakes goes to the front; what
// the others wait for shows once it has gone to the end of the queue.
func (c *Clock) look() {
	runtime.Gosched()
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost.Add(int64(c.overdue(now)))
	c.last = now
	c.coarse.Store(now.UnixNano())
}

// overdue is by how much a look is late beyond what is tolerated; 0 where it is not.
func (c *Clock) overdue(now time.Time) time.Duration {
	if late := now.Sub(c.last) - every; late > tolerated {
		return late
	}
	return 0
}

// Now returns Unix time in nanoseconds, as of the Clock's last tick. A nil Clock reads the system clock.
func (c *Clock) Now() int64 {
	if c == nil {
		return time.Now().UnixNano()
	}
	return c.coarse.Load()
}

// Mark returns a reference point for Since.
func (c *Clock) Mark() int64 {
	if c == nil {
		return 0
	}
	return c.lost.Load()
}

// Since returns how long the process was stalled since mark. It includes a stall that
// the Clock has not noticed yet: after a stop, timers fire before the Clock ticks.
func (c *Clock) Since(mark int64) time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.lost.Load()-mark) + c.overdue(time.Now())
}

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

// patient is a context whose deadline counts steps: a stall of the process takes one of them, and not all.
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
