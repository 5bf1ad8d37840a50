// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"sync"
)

// Subscription is one reader's view of published items, from [Hub.Join] on. It must be
// closed. It has one reader at a time.
type Subscription[K, T any] struct {
	hub *Hub[K, T]
	// ready holds a token while the reader has a reason to look, unless the
	// reader has taken it and not looked yet.
	ready chan struct{}

	// The neighbours and seats are guarded by the hub.
	prev, next *Subscription[K, T]
	seats      []seat[K, T]

	mu    sync.Mutex
	queue Queue[T]
	// over is why the subscription ended: 0 while it goes on, closed, or how many
	// items its reader missed. What is pending then may still be read.
	over int
}

// closed is why most subscriptions end.
const closed = -1

func (s *Subscription[K, T]) isSeated() bool { return s.next != nil }

// Ready returns a channel that has a value to receive while an item is pending or the
// subscription has ended. After each receive, call Poll once: Poll makes the channel
// ready again if more items are pending. Ready always returns the same channel, which is
// never closed.
func (s *Subscription[K, T]) Ready() <-chan struct{} { return s.ready }

// Poll returns the oldest pending item, or false if there is none yet. It never waits.
// An error means that the subscription has ended and no items are pending: a
// *[SlowError] if the reader fell behind, or [ErrClosed] if the subscription or the hub
// was closed.
func (s *Subscription[K, T]) Poll() (T, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	item, ok := s.queue.Take()
	s.signal()
	if ok {
		return item, true, nil
	}
	return item, false, s.err()
}

// Next returns the oldest pending item, or waits for one until ctx ends. Then the error
// is the context's cause. Other errors are those of Poll. Pending items come first, even
// if ctx has ended.
func (s *Subscription[K, T]) Next(ctx context.Context) (T, error) {
	for {
		item, ok, err := s.Poll()
		if ok || err != nil {
			return item, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return item, context.Cause(ctx)
		}
	}
}

// Close discards the pending items. It may be called again, and by other goroutines than
// the reader.
func (s *Subscription[K, T]) Close() {
	s.mu.Lock()
	if s.over == 0 {
		s.over = closed
	}
	s.queue.Reset()
	s.signal()
	s.mu.Unlock()
	s.hub.forget(s)
}

// err is why the subscription is over. The caller holds the lock.
func (s *Subscription[K, T]) err() error {
	switch s.over {
	case 0:
		return nil
	case closed:
		return ErrClosed
	default:
		return &SlowError{Missed: s.over}
	}
}

// signal makes the channel tell whether there is a reason to look. The caller
// holds the lock.
func (s *Subscription[K, T]) signal() {
	if s.queue.Len() > 0 || s.over != 0 {
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

// offer takes an item in. One that does not fit ends the subscription, and what is
// pending goes with it: its reader cannot catch up, and would only be told later.
func (s *Subscription[K, T]) offer(item T) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != 0 {
		return ended
	}
	done := s.queue.Put(item, &s.hub.opts.Queue)
	switch {
	case done == Overflowed:
		s.over = s.queue.Len() + 1
		s.queue.Reset()
		s.signal()
	case done == Queued && s.queue.Len() == 1:
		s.signal()
	}
	return done
}

// end lets nothing more in.
func (s *Subscription[K, T]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == 0 {
		s.over = closed
		s.signal()
	}
}

// sift changes the queue under its lock.
func (s *Subscription[K, T]) sift(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.signal()
}

func (s *Subscription[K, T]) missed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.over, 0)
}
