// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Sentinels of this package.
var (
	// ErrClosed: the hub, or the subscription, has been closed.
	ErrClosed = errors.New("feed: closed")
	// ErrFull: the hub has no room for this subscription; see the bounds of
	// [Options].
	ErrFull = errors.New("feed: too many subscriptions, or too much that they ask for")
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError struct {
	// Missed is how many changes the reader was not given: what was pending, and
	// the one that did not fit. Those that joined others do not count.
	Missed int
}

// Error implements error.
func (e *SlowError) Error() string {
	return fmt.Sprintf("feed: the subscriber fell behind and missed %d changes", e.Missed)
}

// Subscription is one reader's view of the changes. It has to be closed. It has
// one reader at a time.
type Subscription struct {
	hub       *Hub
	principal string
	// ready holds a token while the reader has a reason to look, unless the
	// reader has taken it and not looked yet.
	ready chan struct{}

	// seats and bytes are guarded by the hub.
	seats []seat
	bytes int

	mu      sync.Mutex
	pending backlog
	// over is why the subscription ended, nil while it goes on. What is pending
	// then may still be read.
	over error
}

// Ready returns the channel that has something to receive while a change is
// pending or the subscription has ended. Who has received from it calls Poll,
// which makes it ready again where more is pending: so one call for each receive
// is enough. It is the same channel every time, and never closed.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Poll returns the oldest pending change. It reports false where there is none
// yet. Its error says that the subscription is over, with nothing pending any
// more: a *[SlowError] where the reader fell behind, and [ErrClosed] where the
// subscription or the hub was closed. It never waits.
func (s *Subscription) Poll() (Change, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.pending.take()
	s.signal()
	if !ok {
		return Change{}, false, s.over
	}
	return s.change(&it), true, nil
}

// Next returns the oldest pending change, or waits for one until ctx ends: then
// its error is the context's cause. Its other errors are those of Poll. What is
// pending comes first, even where ctx has ended.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	for {
		if c, ok, err := s.Poll(); ok || err != nil {
			return c, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Change{}, context.Cause(ctx)
		}
	}
}

// Close gives up what is pending. It may be called again, and by others than the
// reader.
func (s *Subscription) Close() {
	s.mu.Lock()
	if s.over == nil {
		s.over = ErrClosed
	}
	s.pending = backlog{}
	s.signal()
	s.mu.Unlock()
	s.hub.forget(s)
}

// signal makes the channel tell whether there is a reason to look. The caller
// holds the lock.
func (s *Subscription) signal() {
	if s.pending.len() > 0 || s.over != nil {
		select {
		case s.ready <- struct{}{}:
		default:
		}
		return
	}
	select {
	case <-s.ready:
	default:
	}
}

// offer takes a change in. One that does not fit ends the subscription, and what
// is pending goes with it: its reader has to look at everything anew anyway.
func (s *Subscription) offer(it item) offered {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return ended
	}
	done := s.pending.put(it, s.hub.opts.MaxPending)
	switch {
	case done == overflowed:
		s.over = &SlowError{Missed: s.pending.len() + 1}
		s.pending = backlog{}
		s.signal()
	case done == queued && s.pending.len() == 1:
		s.signal()
	}
	return done
}

// end lets nothing more in.
func (s *Subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = ErrClosed
		s.signal()
	}
}

func (s *Subscription) change(it *item) Change {
	switch it.kind {
	case ResourceUpdated:
		return Change{Kind: it.kind, URI: it.name}
	case TaskChanged:
		return Change{Kind: it.kind, Task: it.task, Principal: s.principal}
	default:
		return Change{Kind: it.kind}
	}
}
