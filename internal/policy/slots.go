// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Defaults of SlotOptions.
const (
	// DefaultSlots is how many calls run at once: 64 clients with 16 calls each.
	DefaultSlots = 1024
	// DefaultQueued is a quarter of that: what a burst leaves for the next moment.
	DefaultQueued = 256
	// DefaultQueueWait is longer than most calls take, and shorter than people
	// wait without an answer.
	DefaultQueueWait = time.Second
	// leastHint keeps callers that were refused from asking again at once.
	leastHint = 100 * time.Millisecond
)

// SlotOptions configure Slots. Zero fields take the defaults of this package.
type SlotOptions struct {
	// Most is how many calls run at once, Queued how many more wait for their
	// turn, and Wait for how long.
	Most, Queued int
	Wait         time.Duration
	// Share is how much of Most, and of Queued, one caller may have.
	Share share.Rule
}

// Slots bounds the calls that run at once. Those beyond wait for a short time, in
// the order in which they came, and are then refused. A caller that has its share
// waits without holding up those behind it. It is safe for concurrent use. Nil
// bounds nothing.
type Slots struct {
	opts SlotOptions

	mu      sync.Mutex
	running int
	queued  int
	callers map[string]*slotsOf
	// waiting are those whose turn has not come, the first one in front.
	waiting *list.List

	full, expired, over uint64
}

// slotsOf is what one caller has.
type slotsOf struct {
	name            string
	running, queued int
	// waiting are its calls that wait, those beside the queue included.
	waiting int
}

// slotWaiter is a call that waits for its turn.
type slotWaiter struct {
	of *slotsOf
	// begun is closed when it may run.
	begun chan struct{}
}

// maxIdleCallers is how many callers without a call are kept, so that one that
// calls again and again costs nothing.
const maxIdleCallers = 1024

// NewSlots returns Slots that are all free.
func NewSlots(o SlotOptions) *Slots {
	if o.Most <= 0 {
		o.Most = DefaultSlots
	}
	if o.Queued <= 0 {
		o.Queued = DefaultQueued
	}
	if o.Wait <= 0 {
		o.Wait = DefaultQueueWait
	}
	return &Slots{opts: o, callers: map[string]*slotsOf{}, waiting: list.New()}
}

// Acquire returns once a call of a caller may run, with the time that it had to wait,
// or with an error and a hint when to try again: RATE_LIMITED where the caller has
// its share, else UNAVAILABLE. A context that ends first is CANCELLED, or TIMEOUT
// at its deadline. After a nil error, Release has to be called, once.
func (s *Slots) Acquire(ctx context.Context, caller string) (waited time.Duration, err *errmap.Error) {
	if s == nil {
		return 0, nil
	}
	at, err := s.begin(caller, true)
	if at == nil {
		return 0, err
	}
	start := time.Now()
	timer := time.NewTimer(s.opts.Wait)
	defer timer.Stop()
	err = s.await(ctx, at, timer.C)
	return time.Since(start), err
}

// Wait is Acquire for a caller that is held back by flow control: it waits for its
// turn as long as it takes, and has no part in the bound of those that wait. Its
// edge bounds their number.
func (s *Slots) Wait(ctx context.Context, caller string) *errmap.Error {
	if s == nil {
		return nil
	}
	at, err := s.begin(caller, false)
	if at == nil {
		return err
	}
	return s.await(ctx, at, nil)
}

// begin lets a call run, or lines it up; then it is not nil. isQueued: the bound
// of the queue is for it.
func (s *Slots) begin(caller string, isQueued bool) (*list.Element, *errmap.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(caller)
	if s.mayRun(c) {
		s.running++
		c.running++
		return nil, nil
	}
	if isQueued {
		switch {
		case s.queued >= s.opts.Queued:
			s.full++
			return nil, s.refuse(fmt.Sprintf("%d calls run and %d wait already (--max-calls, --max-queued)", s.opts.Most, s.opts.Queued))
		case !s.opts.Share.Allows(int64(c.queued), 1, int64(s.queued), int64(s.opts.Queued)):
			s.over++
			return nil, s.limited(c)
		}
		s.queued++
		c.queued++
	}
	c.waiting++
	return s.waiting.PushBack(&slotWaiter{of: c, begun: make(chan struct{})}), nil
}

// of is what a caller has; s.mu is held.
func (s *Slots) of(caller string) *slotsOf {
	c := s.callers[caller]
	if c != nil {
		return c
	}
	if len(s.callers) >= maxIdleCallers {
		maps.DeleteFunc(s.callers, func(_ string, c *slotsOf) bool { return c.running+c.waiting == 0 })
	}
	c = &slotsOf{name: caller}
	s.callers[caller] = c
	return c
}

// mayRun reports whether one more call of a caller may run; s.mu is held.
func (s *Slots) mayRun(c *slotsOf) bool {
	return s.running < s.opts.Most && s.opts.Share.Allows(int64(c.running), 1, int64(s.running), int64(s.opts.Most))
}

// await returns when the turn of a call has come, or when it waits no longer. It is
// in the queue where there is a time for that.
func (s *Slots) await(ctx context.Context, at *list.Element, expired <-chan time.Time) *errmap.Error {
	w, _ := at.Value.(*slotWaiter)
	var isDone bool
	select {
	case <-w.begun:
	case <-expired:
	case <-ctx.Done():
		isDone = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := w.of
	if expired != nil {
		s.queued--
		c.queued--
	}
	select {
	case <-w.begun: // it may have come at the last moment
		if !isDone {
			return nil
		}
		s.running--
		c.running--
		s.next()
	default:
		s.waiting.Remove(at)
		c.waiting--
	}
	switch {
	case isDone && context.Cause(ctx) == context.DeadlineExceeded: //nolint:errorlint // the context's own value
		return errmap.Wrap(errmap.Timeout, ctx.Err())
	case isDone:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	case s.running < s.opts.Most:
		s.over++
		return s.limited(c)
	}
	s.expired++
	return s.refuse(fmt.Sprintf("%d calls run, and none of them ended within %v (--max-calls, --queue-wait)", s.opts.Most, s.opts.Wait))
}

// Release ends what Acquire or Wait let run.
func (s *Slots) Release(caller string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.callers[caller].running--
	s.next()
}

// next lets calls run whose turn has come; s.mu is held. Callers that have their
// share are passed over.
func (s *Slots) next() {
	for at := s.waiting.Front(); at != nil && s.running < s.opts.Most; {
		w, _ := at.Value.(*slotWaiter)
		following := at.Next()
		if s.mayRun(w.of) {
			s.waiting.Remove(at)
			w.of.waiting--
			w.of.running++
			s.running++
			close(w.begun)
		}
		at = following
	}
}

// limited refuses a call of a caller that has its share.
func (s *Slots) limited(c *slotsOf) *errmap.Error {
	return errmap.New(errmap.RateLimited, errmap.RetryAfter(max(s.opts.Wait, leastHint)), errmap.Messagef(
		"Rate limit exceeded: %d calls of this caller run, and the other places are for other callers (--max-calls, --caller-share)", c.running))
}

func (s *Slots) refuse(reason string) *errmap.Error {
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(max(s.opts.Wait, leastHint)), errmap.Message("Tool service unavailable: "+reason))
}

// SlotStats is what Slots know of themselves.
type SlotStats struct {
	// Running and Waiting are the calls now; Most and Queued how many there may be.
	Running, Waiting, Most, Queued int
	// Full counts calls that found the queue full, Expired those that waited in
	// vain, Over those of callers that had their share.
	Full, Expired, Over uint64
}

// Stats returns the counts; none of nil.
func (s *Slots) Stats() SlotStats {
	if s == nil {
		return SlotStats{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return SlotStats{
		Running: s.running, Waiting: s.waiting.Len(), Most: s.opts.Most, Queued: s.opts.Queued,
		Full: s.full, Expired: s.expired, Over: s.over,
	}
}
