// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
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
}

// Slots bounds the calls that run at once. Those beyond wait for a short time, in
// the order in which they came, and are then refused. It is safe for concurrent
// use. Nil bounds nothing.
type Slots struct {
	opts SlotOptions
	// taken holds a value for each call that runs. Go hands a place that is freed
	// to whoever waits longest.
	taken  chan struct{}
	queued atomic.Int64

	full, expired atomic.Uint64
}

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
	return &Slots{opts: o, taken: make(chan struct{}, o.Most)}
}

// Take returns once the call may run, with the time that it had to wait, or with
// UNAVAILABLE and a hint when to try again. A context that ends first is
// CANCELLED, or TIMEOUT at its deadline. After a nil error, Give has to be called,
// once.
func (s *Slots) Take(ctx context.Context) (waited time.Duration, err *errmap.Error) {
	if s == nil {
		return 0, nil
	}
	select {
	case s.taken <- struct{}{}:
		return 0, nil
	default:
	}
	start := time.Now()
	err = s.wait(ctx)
	return time.Since(start), err
}

// wait is Take where no place is free.
func (s *Slots) wait(ctx context.Context) *errmap.Error {
	if s.queued.Add(1) > int64(s.opts.Queued) {
		s.queued.Add(-1)
		s.full.Add(1)
		return s.refuse(fmt.Sprintf("%d calls run and %d wait already (--max-calls, --max-queued)", s.opts.Most, s.opts.Queued))
	}
	defer s.queued.Add(-1)
	timer := time.NewTimer(s.opts.Wait)
	defer timer.Stop()
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-timer.C:
		s.expired.Add(1)
		return s.refuse(fmt.Sprintf("%d calls run, and none of them ended within %v (--max-calls, --queue-wait)", s.opts.Most, s.opts.Wait))
	case <-ctx.Done():
		if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // the context's own value
			return errmap.Wrap(errmap.Timeout, ctx.Err())
		}
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	}
}

// Give ends what Take let run.
func (s *Slots) Give() {
	if s != nil {
		<-s.taken
	}
}

func (s *Slots) refuse(reason string) *errmap.Error {
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(max(s.opts.Wait, leastHint)), errmap.Message("Tool service unavailable: "+reason))
}

// SlotStats is what Slots know of themselves.
type SlotStats struct {
	// Running and Waiting are the calls now; Most and Queued how many there may be.
	Running, Waiting, Most, Queued int
	// Full counts calls that found the queue full, Expired those that waited in
	// vain.
	Full, Expired uint64
}

// Stats returns the counts; none of nil.
func (s *Slots) Stats() SlotStats {
	if s == nil {
		return SlotStats{}
	}
	return SlotStats{
		Running: len(s.taken), Waiting: int(s.queued.Load()), Most: s.opts.Most, Queued: s.opts.Queued,
		Full: s.full.Load(), Expired: s.expired.Load(),
	}
}
