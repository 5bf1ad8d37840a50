// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Sentinels of this package.
var (
	// ErrClosed: the hub, or the subscription, has been closed.
	ErrClosed = errors.New("hub: closed")
	// ErrFull: the hub has no room for this subscription; see the bounds of
	// [Options].
	ErrFull = errors.New("hub: too many subscriptions, or too much that they ask for")
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError struct {
	// Missed is how many items the reader was not given: what was pending, and the
	// one that did not fit. Those that joined others do not count.
	Missed int
}

// Error implements error.
func (e *SlowError) Error() string {
	return fmt.Sprintf("hub: the subscriber fell behind and missed %d items", e.Missed)
}

// Options configure a Hub. There are no defaults: a bound of zero admits nothing.
type Options struct {
	// MaxSubscribers is how many subscriptions there may be at a time.
	MaxSubscribers int
	// MaxBytes bounds what all subscriptions ask for together, as [Index] counts it.
	MaxBytes int
	// Queue bounds what one subscriber may have pending.
	Queue Bounds
	// OnDrop is called for every subscriber that is dropped, by the publisher whose
	// item did not fit: it must be quick. Nil: nothing.
	OnDrop func(*SlowError)
}

// Hub takes items and hands them to subscribers, which ask for keys of type K. Make
// one with [New].
type Hub[K, T any] struct {
	opts    Options
	index   Index[K, T]
	watcher watcher

	mu sync.RWMutex
	// root is between the last and the first of all subscriptions.
	root        Subscription[K, T]
	subscribers int
	bytes       int
	closed      bool

	published, queued, merged, dropped atomic.Uint64
}

// New returns a hub without subscribers. The index is the hub's from now on.
func New[K, T any](index Index[K, T], o Options) *Hub[K, T] {
	h := &Hub[K, T]{opts: o, index: index}
	h.root.next, h.root.prev = &h.root, &h.root
	return h
}

// Want is one thing that a subscription asks for. A subscription names each key once.
type Want[K any] struct {
	Key K
	// Covered: another one of the same subscription brings all that this one would.
	Covered bool
}

// Join admits a new subscription with an empty queue: what is published after Join
// has returned reaches it. Its error is [ErrFull] or [ErrClosed].
func (h *Hub[K, T]) Join(s *Subscription[K, T], queue Queue[T], wants []Want[K]) error {
	s.hub, s.queue, s.ready = h, queue, make(chan struct{}, 1)
	changed, err := h.admit(s, wants)
	if changed {
		h.watcher.changed()
	}
	return err
}

// admit seats a subscription, and reports whether it is the first to ask for
// something.
func (h *Hub[K, T]) admit(s *Subscription[K, T], wants []Want[K]) (bool, error) {
	cost := h.cost(wants)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, ErrClosed
	case h.subscribers >= h.opts.MaxSubscribers, h.bytes+cost > h.opts.MaxBytes:
		return false, ErrFull
	}
	h.bytes += cost
	h.subscribers++
	s.prev, s.next = h.root.prev, &h.root
	s.prev.next, s.next.prev = s, s
	return h.seat(s, wants), nil
}

// Reseat makes a subscription ask for other things, in one step: what it asked for
// before and still does is neither missed nor told twice. Once that is certain, sift
// is called with the queue locked, to give up what is not wanted any more. Its error
// is [ErrFull], or [ErrClosed] where the subscription is over; then nothing has
// changed.
func (h *Hub[K, T]) Reseat(s *Subscription[K, T], wants []Want[K], sift func()) error {
	changed, err := h.reseat(s, wants, sift)
	if changed {
		h.watcher.changed()
	}
	return err
}

func (h *Hub[K, T]) reseat(s *Subscription[K, T], wants []Want[K], sift func()) (bool, error) {
	cost := h.cost(wants)
	h.mu.Lock()
	defer h.mu.Unlock()
	grown := cost - h.seatCost(s.seats)
	switch {
	case h.closed, !s.isSeated():
		return false, ErrClosed
	case h.bytes+grown > h.opts.MaxBytes:
		return false, ErrFull
	}
	h.bytes += grown
	old := s.seats
	// The new seats are taken before the old ones are left, so that a topic that
	// is in both stays.
	changed := h.seat(s, wants)
	s.sift(sift)
	return h.leave(old) || changed, nil
}

// forget unseats subscriptions. Those without seats do not matter.
func (h *Hub[K, T]) forget(gone ...*Subscription[K, T]) {
	if h.unseatAll(gone) {
		h.watcher.changed()
	}
}

// unseatAll reports whether something is not asked for any more.
func (h *Hub[K, T]) unseatAll(gone []*Subscription[K, T]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := false
	for _, s := range gone {
		if s.isSeated() {
			changed = h.unseat(s) || changed
		}
	}
	return changed
}

func (h *Hub[K, T]) unseat(s *Subscription[K, T]) bool {
	h.bytes -= h.seatCost(s.seats)
	h.subscribers--
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
	left := s.seats
	s.seats = nil
	return h.leave(left)
}

// Close ends every subscription once what is pending has been read, and lets no
// new one in. It may be called again.
func (h *Hub[K, T]) Close() {
	h.watcher.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := h.root.next; s != &h.root; s = h.root.next {
		s.end()
		h.unseat(s)
	}
}

// View calls look with the index locked for reading.
func (h *Hub[K, T]) View(look func()) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	look()
}

// OnTopics names a function that is called when topics have been added or released;
// at once where there already were some. It replaces the one before.
//
// The calls come one after the other, on the goroutine that subscribes or closes,
// with no lock of the hub held. Changes during a call lead to one more call together.
// After [Hub.Close] no further call begins.
func (h *Hub[K, T]) OnTopics(changed func()) { h.watcher.set(changed) }

// Stats are what a hub has done so far.
type Stats struct {
	// Subscribers is how many there are now; Bytes is what they ask for, as
	// [Options.MaxBytes] counts it.
	Subscribers, Bytes int
	// Published counts items, Queued how many times one became pending, Merged how
	// many times one joined another that was pending, Dropped subscribers that fell
	// behind.
	Published, Queued, Merged, Dropped uint64
}

// Stats returns the counts. Each is right, but they are not taken at one moment.
func (h *Hub[K, T]) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{
		Subscribers: h.subscribers, Bytes: h.bytes,
		Published: h.published.Load(), Queued: h.queued.Load(), Merged: h.merged.Load(), Dropped: h.dropped.Load(),
	}
}
