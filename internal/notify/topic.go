// SPDX-License-Identifier: Apache-2.0

// Package notify is publish and subscribe: of changes ([Feed]), of events ([Bus], and [SharedBus] for all replicas), and of
// resources that are the newest message of a backend's stream ([Watches]).
//
// Feed and Bus deliver items through topics. A topic is one thing that subscriptions ask for; subscriptions that ask for the
// same thing share it, so a publisher pays for each topic and each member, not for every filter. Each subscription has a
// bounded queue with one of two policies, which the item chooses: an item with a key replaces a pending item of that key
// (changes), an item without one is kept in order of arrival (events). Publishing never waits for a reader. A reader whose
// queue is full is dropped and gets the number of missed items ([SlowError]).
//
// Topics keep nothing for later subscribers and start no goroutine; an idle subscription costs a few hundred bytes.
// Everything is safe for concurrent use, except that a subscription has one reader.
package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

var (
	// ErrClosed means that the publisher or the subscription has been closed.
	ErrClosed = errors.New("notify: closed")
	// ErrFull means that there is no room for a subscription.
	ErrFull = errors.New("notify: too many subscriptions, or too much that they ask for")
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError struct {
	// Missed is the number of items that the reader did not get: the pending ones, and the one that did not fit.
	Missed int
}

// Error implements error.
func (e *SlowError) Error() string {
	return fmt.Sprintf("notify: the subscriber fell behind and missed %d items", e.Missed)
}

// FilterError says why a filter is invalid.
type FilterError struct {
	// Field is "resource URI", "task id" or "pattern". Index is the index of the element, or -1 if there are too many.
	Field  string
	Index  int
	Reason string
}

// Error implements error.
func (e *FilterError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("notify: filter: %ss: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("notify: filter: %s %d: %s", e.Field, e.Index, e.Reason)
}

// checkNames checks one list of a filter.
func checkNames(field string, names []string, most, mostBytes int) error {
	if len(names) > most {
		return &FilterError{Field: field, Index: -1, Reason: fmt.Sprintf("%d of them, over the limit of %d", len(names), most)}
	}
	for i, name := range names {
		switch {
		case name == "":
			return &FilterError{Field: field, Index: i, Reason: "it is empty"}
		case len(name) > mostBytes:
			return &FilterError{Field: field, Index: i, Reason: fmt.Sprintf("%d bytes, over the limit of %d", len(name), mostBytes)}
		}
	}
	return nil
}

// distinct returns a sorted copy without duplicates.
func distinct(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// key identifies a topic, and what a pending item is about. The zero key is about nothing.
type key struct {
	kind Kind
	// name is a URI, a task's id, or the patterns of an event filter. owner is a task's principal, or a resource's scope.
	name, owner string
}

// seatBytes is roughly what a thing that a subscription asks for takes beside its name.
const seatBytes = 64

// cost counts against [limits.cost]. Event filters cost nothing: the maximum number of subscriptions also bounds them.
func (k key) cost() int {
	if k.kind == 0 {
		return 0
	}
	return len(k.name) + seatBytes
}

// item is what topics deliver.
type item interface {
	// key is the key under which the item replaces a pending one, which weighs the same. The zero key replaces none.
	key() key
	// weight is what the item counts against the limits of a queue.
	weight() (items, bytes int)
}

// limits bound a hub. A limit of zero admits nothing.
type limits struct {
	// subscribers is the maximum number of subscriptions, cost the maximum total cost of what they ask for.
	subscribers, cost int
	// items and bytes bound the pending items of one subscription.
	items, bytes int
}

// Stats are the counts of a [Feed] or a [Bus].
type Stats struct {
	// Subscribers is the current number of subscribers. Bytes is the cost of what they ask for.
	Subscribers, Bytes int
	// Published counts items. Queued counts how many times one became pending, Merged how many times one replaced a pending
	// item. Dropped counts subscribers that fell behind.
	Published, Queued, Merged, Dropped uint64
}

// hub has the topics and the subscriptions of one publisher.
type hub[T item] struct {
	limits limits
	// onDrop is called for every dropped subscriber, by the publisher whose item did not fit; nil is no callback.
	onDrop func(*SlowError)
	// onTopic is called with the hub locked when a topic was added or removed; nil is no callback.
	onTopic func(t *topic[T], isNew bool)

	mu       sync.RWMutex
	topics   map[key]*topic[T]
	members  map[*subscription[T]]struct{}
	cost     int
	isClosed bool

	published, queued, merged, dropped atomic.Uint64
}

// topic is one thing that subscriptions ask for. The hub's lock guards it.
type topic[T item] struct {
	key key
	// patterns are those of an event filter.
	patterns patterns
	// members get the items. A subscription that holds the topic and is no member gets them through another topic.
	members []*seat[T]
	holders int
}

// seat is a subscription's membership in a topic.
type seat[T item] struct {
	sub   *subscription[T]
	topic *topic[T]
	at    int // the index among the members, or notAMember
}

const notAMember = -1

// want is one thing that a subscription asks for. A subscription contains each key once.
type want struct {
	key      key
	patterns patterns
	// isCovered: another want of the same subscription brings all items of this one.
	isCovered bool
}

func (h *hub[T]) init(l limits) {
	h.limits, h.topics, h.members = l, map[key]*topic[T]{}, map[*subscription[T]]struct{}{}
}

// join adds a new subscription. Every item published afterwards reaches it. The error is [ErrFull] or [ErrClosed].
func (h *hub[T]) join(s *subscription[T], wants []want) error {
	s.hub, s.ready = h, make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isClosed && len(h.members) >= h.limits.subscribers {
		return ErrFull
	}
	if err := h.seat(s, wants); err != nil {
		return err
	}
	h.members[s] = struct{}{}
	return nil
}

// seat replaces the seats of a subscription, within the limit of their cost. The hub is locked.
func (h *hub[T]) seat(s *subscription[T], wants []want) error {
	grown := 0
	for i := range wants {
		grown += wants[i].key.cost()
	}
	for i := range s.seats {
		grown -= s.seats[i].topic.key.cost()
	}
	switch {
	case h.isClosed:
		return ErrClosed
	case h.cost+grown > h.limits.cost:
		return ErrFull
	}
	// The new seats are taken before the old ones are left, so that a topic that is in both stays.
	old := s.seats
	s.seats = make([]seat[T], len(wants))
	for i := range wants {
		w := &wants[i]
		t, ok := h.topics[w.key]
		if !ok {
			t = &topic[T]{key: w.key, patterns: w.patterns}
			h.topics[w.key] = t
			h.told(t, true)
		}
		place := &s.seats[i]
		*place = seat[T]{sub: s, topic: t, at: notAMember}
		h.cost += t.key.cost()
		t.holders++
		if !w.isCovered {
			place.at = len(t.members)
			t.members = append(t.members, place)
		}
	}
	h.leave(old)
	return nil
}

func (h *hub[T]) told(t *topic[T], isNew bool) {
	if h.onTopic != nil {
		h.onTopic(t, isNew)
	}
}

// keptSeats is the room that a topic keeps free after many have left.
const keptSeats = 64

// leave gives seats up. The hub is locked.
func (h *hub[T]) leave(seats []seat[T]) {
	for i := range seats {
		place := &seats[i]
		t := place.topic
		h.cost -= t.key.cost()
		if t.holders--; t.holders == 0 {
			delete(h.topics, t.key)
			h.told(t, false)
			continue
		}
		if place.at == notAMember {
			continue
		}
		last := len(t.members) - 1
		moved := t.members[last]
		t.members[place.at], moved.at = moved, place.at
		t.members[last] = nil
		t.members = t.members[:last]
		if spare := cap(t.members); spare > keptSeats && last < spare/4 {
			t.members = append(make([]*seat[T], 0, spare/2), t.members...)
		}
	}
}

// forget removes subscriptions, if they are there.
func (h *hub[T]) forget(gone ...*subscription[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range gone {
		h.remove(s)
	}
}

func (h *hub[T]) remove(s *subscription[T]) {
	if _, ok := h.members[s]; ok {
		delete(h.members, s)
		h.leave(s.seats)
		s.seats = nil
	}
}

// publish delivers an item to the members of topics: find returns both, with the hub locked. It returns the number of
// subscriptions for which the item became pending, and drops those whose queues had no room for it: all of them at once,
// because one item may overflow many queues. The error is [ErrClosed].
func (h *hub[T]) publish(find func() (T, []*topic[T])) (int, error) {
	h.mu.RLock()
	if h.isClosed {
		h.mu.RUnlock()
		return 0, ErrClosed
	}
	h.published.Add(1)
	var count [ended + 1]int
	var slow []*subscription[T]
	it, found := find()
	for _, t := range found {
		for _, m := range t.members {
			done := m.sub.offer(it)
			count[done]++
			if done == overflowed {
				slow = append(slow, m.sub)
			}
		}
	}
	h.mu.RUnlock()
	h.queued.Add(uint64(count[queued]))
	h.merged.Add(uint64(count[merged]))
	h.drop(slow)
	return count[queued], nil
}

// drop removes subscriptions that have ended because their readers fell behind.
func (h *hub[T]) drop(slow []*subscription[T]) {
	if len(slow) == 0 {
		return
	}
	h.dropped.Add(uint64(len(slow)))
	h.forget(slow...)
	if h.onDrop != nil {
		for _, s := range slow {
			s.mu.Lock()
			missed := s.over
			s.mu.Unlock()
			h.onDrop(&SlowError{Missed: missed})
		}
	}
}

// Close stops new subscriptions, and ends every subscription once its pending items have been read. It may be called again.
func (h *hub[T]) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isClosed = true
	for s := range h.members {
		s.refuseMore(false)
		h.remove(s)
	}
}

// Stats returns the counts. Each count is correct, but they are not a snapshot of one moment.
func (h *hub[T]) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{
		Subscribers: len(h.members), Bytes: h.cost,
		Published: h.published.Load(), Queued: h.queued.Load(), Merged: h.merged.Load(), Dropped: h.dropped.Load(),
	}
}

// subscription is one reader's view of published items. It must be closed. It has one reader at a time.
type subscription[T item] struct {
	hub *hub[T]
	// ready holds a token while the reader has a reason to look, unless the reader has taken it and not looked yet.
	ready chan struct{}
	seats []seat[T] // guarded by the hub

	mu      sync.Mutex
	pending queue[T]
	// over is why the subscription ended: 0 while it goes on, byClose, or the number of items that its reader missed.
	over int
}

const byClose = -1

// Ready returns a channel that has a value to receive while an item is pending or the subscription has ended. After each
// receive, call Poll once: Poll makes the channel ready again if more items are pending. The channel is never closed.
func (s *subscription[T]) Ready() <-chan struct{} { return s.ready }

// Poll returns the oldest pending item, or false if there is none yet. It never waits. An error means that the subscription
// has ended and no items are pending: a *[SlowError] if the reader fell behind, or [ErrClosed].
func (s *subscription[T]) Poll() (T, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.pending.pop()
	s.signal()
	switch {
	case ok || s.over == 0:
		return it, ok, nil
	case s.over == byClose:
		return it, false, ErrClosed
	default:
		return it, false, &SlowError{Missed: s.over}
	}
}

// Next returns the oldest pending item, or waits for one until ctx ends. Then the error is the context's cause. Other errors
// are those of Poll. Pending items come first, even if ctx has ended.
func (s *subscription[T]) Next(ctx context.Context) (T, error) {
	for {
		it, ok, err := s.Poll()
		if ok || err != nil {
			return it, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return it, context.Cause(ctx)
		}
	}
}

// Close discards the pending items. It may be called again, and by other goroutines than the reader.
func (s *subscription[T]) Close() {
	s.refuseMore(true)
	s.hub.forget(s)
}

// refuseMore lets nothing more in. What is pending may be discarded, in one step with it: a publisher comes before or behind both.
func (s *subscription[T]) refuseMore(discard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if discard {
		s.pending = queue[T]{}
	}
	if s.over == 0 {
		s.over = byClose
	}
	s.signal()
}

// reseat replaces what the subscription asks for, in one step: for what is in both the old and the new list, no item is
// missed or delivered twice. Pending items that isWanted refuses are removed. After an error nothing has changed.
func (s *subscription[T]) reseat(wants []want, isWanted func(T) bool) error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if _, ok := s.hub.members[s]; !ok {
		return ErrClosed
	}
	if err := s.hub.seat(s, wants); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.pending.items[s.pending.head:]
	s.pending = queue[T]{}
	for _, it := range pending {
		if isWanted(it) {
			s.pending.put(it, &s.hub.limits)
		}
	}
	s.signal()
	return nil
}

// signal makes the channel tell whether there is a reason to look. The subscription is locked.
func (s *subscription[T]) signal() {
	if s.pending.len() > 0 || s.over != 0 {
		wake(s.ready)
		return
	}
	select {
	case <-s.ready:
	default:
	}
}

// wake sends to a channel that holds one token.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer queues an item. One that does not fit ends the subscription and discards the pending items: the reader cannot catch up.
func (s *subscription[T]) offer(it T) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != 0 {
		return ended
	}
	done := s.pending.put(it, &s.hub.limits)
	switch {
	case done == overflowed:
		s.over = s.pending.len() + 1
		s.pending = queue[T]{}
		s.signal()
	case done == queued && s.pending.len() == 1:
		s.signal()
	}
	return done
}

// outcome is the result of offering an item.
type outcome uint8

const (
	queued outcome = iota
	// merged: the item replaced a pending one.
	merged
	// overflowed: there was no room for the item.
	overflowed
	// ended: the subscription was over.
	ended
)

const (
	// fewItems is up to where a look at every item is as fast as a map.
	fewItems = 16
	// keptItems is the number of items that an empty queue keeps room for, so that a burst is not paid for until the end.
	keptItems = 64
)

// queue holds the pending items of a subscription. An item that replaces another one takes its position, so that something
// that changes all the time cannot delay itself forever. The zero value is empty.
type queue[T item] struct {
	// items are pending from head on.
	items        []T
	head         int
	count, bytes int // what the pending items weigh
	// places are the numbers of the pending items by key, once they are too many to look at one by one. The number of an item
	// is its index plus cut, which counts the items that were cut off before it.
	places map[key]int
	cut    int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

// put adds an item within limits. An item that does not fit changes nothing.
func (q *queue[T]) put(it T, within *limits) outcome {
	about := it.key()
	if at, ok := q.find(about); ok {
		q.items[at] = it
		return merged
	}
	items, bytes := it.weight()
	if q.count+items > within.items || q.bytes+bytes > within.bytes {
		return overflowed
	}
	q.count, q.bytes = q.count+items, q.bytes+bytes
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 { // half of the room is free
		q.cut += q.head
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
	switch {
	case about == key{}:
	case q.places != nil:
		q.places[about] = q.cut + len(q.items) - 1
	case q.len() > fewItems:
		q.places = make(map[key]int, 2*fewItems)
		for i := q.head; i < len(q.items); i++ {
			q.places[q.items[i].key()] = q.cut + i
		}
	}
	return queued
}

// find returns the index of the pending item of a key.
func (q *queue[T]) find(about key) (int, bool) {
	if about == (key{}) {
		return 0, false
	}
	if q.places != nil {
		number, ok := q.places[about]
		return number - q.cut, ok
	}
	for i := q.head; i < len(q.items); i++ {
		if q.items[i].key() == about {
			return i, true
		}
	}
	return 0, false
}

// pop removes and returns the oldest item, or returns false if there is none.
func (q *queue[T]) pop() (T, bool) {
	var none T
	if q.len() == 0 {
		return none, false
	}
	it := q.items[q.head]
	q.items[q.head] = none
	q.head++
	items, bytes := it.weight()
	q.count, q.bytes = q.count-items, q.bytes-bytes
	delete(q.places, it.key())
	if q.len() == 0 {
		left := q.items[:0]
		if *q = (queue[T]{}); cap(left) <= keptItems {
			q.items = left
		}
	}
	return it, true
}
