// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Errors of this package.
var (
	// ErrClosed means that the hub or the subscription has been closed.
	ErrClosed = errors.New("hub: closed")
	// ErrFull means that the hub has no room for this subscription; see the limits in
	// [Options].
	ErrFull = errors.New("hub: too many subscriptions, or too much that they ask for")
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError struct {
	// Missed is the number of items that the reader did not get: the pending ones, and
	// the one that did not fit. Items that merged with others do not count.
	Missed int
}

// Error implements error.
func (e *SlowError) Error() string {
	return fmt.Sprintf("hub: the subscriber fell behind and missed %d items", e.Missed)
}

// Options configure a Hub. There are no defaults: a limit of zero admits nothing.
type Options struct {
	// MaxSubscribers is the maximum number of subscriptions at a time.
	MaxSubscribers int
	// MaxBytes bounds the total cost of what all subscriptions ask for, as [Index] counts
	// it.
	MaxBytes int
	// Queue bounds the pending items of one subscriber.
	Queue Bounds
	// OnDrop is called for every dropped subscriber, by the publisher whose item did not
	// fit. It must return quickly. Nil means no callback.
	OnDrop func(*SlowError)
}

// Hub delivers items to subscribers, which ask for keys of type K. Make one with [New].
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

// New returns a hub without subscribers. The hub owns the index from now on.
func New[K, T any](index Index[K, T], o Options) *Hub[K, T] {
	h := &Hub[K, T]{opts: o, index: index}
	h.root.next, h.root.prev = &h.root, &h.root
	return h
}

// Want is one thing that a subscription asks for. A subscription contains each key once.
type Want[K any] struct {
	Key K
	// Covered means that another Want of the same subscription delivers all items of this
	// one.
	Covered bool
}

// Join adds a new subscription with an empty queue. Every item published after Join has
// returned reaches it. The error is [ErrFull] or [ErrClosed].
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

// Reseat replaces what a subscription asks for, in one step. For keys in both the old
// and the new list, no item is missed or delivered twice. Once the change is certain,
// Reseat calls sift with the queue locked, to remove items that are not wanted any more.
// The error is [ErrFull], or [ErrClosed] if the subscription has ended. After an error
// nothing has changed.
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

// Close stops new subscriptions, and ends every subscription once its pending items have
// been read. It may be called again.
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

// OnTopics sets a function that is called when topics have been added or released. It is
// called at once if there already are some. It replaces the previous function.
//
// The calls are sequential, on the goroutine that subscribes or closes, and without a
// lock of the hub. Changes during a call cause one more call for all of them. No call
// begins after [Hub.Close].
func (h *Hub[K, T]) OnTopics(changed func()) { h.watcher.set(changed) }

// Stats are the counts of a hub.
type Stats struct {
	// Subscribers is the current number of subscribers. Bytes is the cost of what they
	// ask for, as [Options.MaxBytes] counts it.
	Subscribers, Bytes int
	// Published counts items. Queued counts how many times one became pending. Merged
	// counts how many times one merged with a pending item. Dropped counts subscribers
	// that fell behind.
	Published, Queued, Merged, Dropped uint64
}

// Stats returns the counts. Each count is correct, but they are not a snapshot of one
// moment.
func (h *Hub[K, T]) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{
		Subscribers: h.subscribers, Bytes: h.bytes,
		Published: h.published.Load(), Queued: h.queued.Load(), Merged: h.merged.Load(), Dropped: h.dropped.Load(),
	}
}
