// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"sync"
)

// subscription is a queue with one reader and many writers.
type subscription struct {
	bus   *Memory
	wants *matcher
	// wake holds a token where the reader has a reason to look.
	wake chan struct{}

	mu    sync.Mutex
	queue []*Event // the unread ones begin at head
	head  int
	bytes int
	// over is why the subscription ended; nil while it goes on. What is unread
	// then may still be read.
	over error
	lost int
}

// offered is what became of an event.
type offered uint8

const (
	took offered = iota
	// fellBehind: it did not fit, and that ended the subscription.
	fellBehind
	// ended: the subscription had ended before.
	ended
)

// offer queues an event. One that does not fit ends the subscription, and the
// queue goes with it: its reader cannot catch up, and would only be told later.
func (s *subscription) offer(e *Event) offered {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return ended
	}
	o := &s.bus.opts
	if unread := len(s.queue) - s.head; unread >= o.MaxBacklog || s.bytes+e.size() > o.MaxBacklogBytes {
		s.lost = unread + 1
		s.over = &SlowError{Missed: s.lost}
		s.clear()
		s.wakeUp()
		return fellBehind
	}
	s.push(e)
	s.wakeUp()
	return took
}

// push appends an event, and moves the unread ones to the front rather than
// grow while the front is free.
func (s *subscription) push(e *Event) {
	if len(s.queue) == cap(s.queue) && s.head > len(s.queue)/2 {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, e)
	s.bytes += e.size()
}

// pop returns the oldest unread event, nil where there is none.
func (s *subscription) pop() (*Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == len(s.queue) {
		return nil, s.over
	}
	e := s.queue[s.head]
	s.queue[s.head] = nil
	s.head++
	s.bytes -= e.size()
	if s.head == len(s.queue) {
		s.rewind()
	}
	return e, nil
}

// keptQueue is how large an empty queue may stay: a burst must not be paid for
// until the end of the subscription.
const keptQueue = 64

func (s *subscription) rewind() {
	s.queue, s.head = s.queue[:0], 0
	if cap(s.queue) > keptQueue {
		s.queue = nil
	}
}

func (s *subscription) clear() { s.queue, s.head, s.bytes = nil, 0, 0 }

func (s *subscription) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next implements [Subscription].
func (s *subscription) Next(ctx context.Context) (*Event, error) {
	for {
		if e, err := s.pop(); e != nil || err != nil {
			return e, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Close implements [Subscription].
func (s *subscription) Close() {
	s.end(ErrClosed)
	s.mu.Lock()
	s.clear()
	s.mu.Unlock()
	s.bus.forget(s)
}

// end lets nothing more in.
func (s *subscription) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = why
		s.wakeUp()
	}
}

func (s *subscription) missed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}
