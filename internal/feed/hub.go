// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
)

// Defaults of Options.
const (
	// DefaultMaxSubscribers is the default of limits.max_streams, since every
	// subscriber is a stream.
	DefaultMaxSubscribers = 10000
	// DefaultMaxPending is as many as a filter may have URIs or task ids: who asks
	// for so many resources may have all of them pending.
	DefaultMaxPending = 1024
	// DefaultMaxBytes leaves every one of DefaultMaxSubscribers some fifty URIs of
	// usual length.
	DefaultMaxBytes = 64 << 20
)

// seatBytes is what a thing that a subscription asks for costs beside its name,
// roughly.
const seatBytes = 64

// Options configure a Hub. Zero fields take the defaults of this package.
type Options struct {
	// MaxSubscribers is how many subscriptions there may be at a time.
	MaxSubscribers int
	// MaxPending is how many resources and tasks together a subscriber may have
	// pending. The lists come on top, each at most once.
	MaxPending int
	// MaxBytes bounds what all subscriptions ask for together: the URIs and task
	// ids, and 64 bytes for each of them.
	MaxBytes int
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&o.MaxSubscribers, DefaultMaxSubscribers},
		{&o.MaxPending, DefaultMaxPending},
		{&o.MaxBytes, DefaultMaxBytes},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return o
}

// Hub takes changes and hands them to subscribers. Make one with [New].
type Hub struct {
	opts    Options
	watcher watcher
	settle  atomic.Pointer[func(context.Context)]

	mu sync.RWMutex
	// everyone has a seat for each subscription; the index leads to those that
	// want a change.
	everyone topic
	index    index
	bytes    int
	closed   bool

	published, queued, merged, dropped atomic.Uint64
}

// New returns a hub without subscribers.
func New(o Options) *Hub {
	return &Hub{opts: o.withDefaults(), index: newIndex()}
}

// Publish hands a change to the subscribers that want it. It never waits for
// their readers. Its error is a *[ChangeError] or [ErrClosed], and then no subscriber
// gets the change. Of changes that are published at the same time, subscribers
// may see different orders.
func (h *Hub) Publish(c Change) error {
	if err := c.check(); err != nil {
		return err
	}
	slow, err := h.deliver(&c)
	if len(slow) > 0 {
		h.dropped.Add(uint64(len(slow)))
		h.forget(slow...)
	}
	return err
}

// deliver returns the subscriptions for which the change was too much.
func (h *Hub) deliver(c *Change) ([]*Subscription, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return nil, ErrClosed
	}
	h.published.Add(1)
	var some [4]*topic
	found := h.index.about(c, some[:0])
	if len(found) == 0 {
		return nil, nil
	}
	it := c.item(found)
	var slow []*Subscription
	var count [ended + 1]uint64
	for _, t := range found {
		for _, s := range t.members {
			done := s.sub.offer(it)
			count[done]++
			if done == overflowed {
				slow = append(slow, s.sub)
			}
		}
	}
	h.queued.Add(count[queued])
	h.merged.Add(count[merged])
	return slow, nil
}

// item is what is kept of a change. It keeps nothing else alive: the URI may be
// a part of a whole message.
func (c *Change) item(found []*topic) item {
	if c.Kind != ResourceUpdated {
		return item{kind: c.Kind, name: c.Task.GetTaskId(), task: c.Task}
	}
	// The longest beginning comes last.
	if name := found[len(found)-1].key.name; len(name) == len(c.URI) {
		return item{kind: c.Kind, name: name}
	}
	return item{kind: c.Kind, name: strings.Clone(c.URI)}
}

// Subscribe returns the changes from now on that f chooses: what is published
// after it has returned reaches the subscription. Its error is [ErrFull],
// [ErrClosed] or a *[FilterError].
func (h *Hub) Subscribe(f Filter) (*Subscription, error) {
	// One copy for all of its tasks.
	f.Principal = strings.Clone(f.Principal)
	wants, err := f.wants()
	if err != nil {
		return nil, err
	}
	s := &Subscription{hub: h, principal: f.Principal, ready: make(chan struct{}, 1)}
	for i := range wants {
		s.bytes += len(wants[i].key.name) + seatBytes
	}
	changed, err := h.admit(s, wants)
	if err != nil {
		return nil, err
	}
	if changed {
		h.watcher.changed()
	}
	return s, nil
}

// admit seats a subscription, and reports whether it is the first to ask for
// something.
func (h *Hub) admit(s *Subscription, wants []want) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, ErrClosed
	case h.everyone.holders >= h.opts.MaxSubscribers, h.bytes+s.bytes > h.opts.MaxBytes:
		return false, ErrFull
	}
	h.bytes += s.bytes
	return h.seat(s, wants), nil
}

// forget unseats subscriptions. Those without seats do not matter.
func (h *Hub) forget(gone ...*Subscription) {
	if h.unseat(gone) {
		h.watcher.changed()
	}
}

// unseat reports whether nothing asks for it any more.
func (h *Hub) unseat(gone []*Subscription) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	changed := false
	for _, s := range gone {
		if h.leave(s.seats) {
			changed = true
		}
		if s.seats != nil {
			h.bytes -= s.bytes
		}
		s.seats = nil
	}
	return changed
}

// Close ends every subscription once what is pending has been read, and lets no
// new one in. It may be called again.
func (h *Hub) Close() {
	h.watcher.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for _, s := range h.everyone.members {
		s.sub.end()
		s.sub.seats = nil
	}
	h.everyone, h.index, h.bytes = topic{}, newIndex(), 0
}

// Stats are what a hub has done so far.
type Stats struct {
	// Subscribers is how many there are now; Bytes is what they ask for, as
	// [Options.MaxBytes] counts it.
	Subscribers, Bytes int
	// Published counts changes, Queued how many times one became pending, Merged
	// how many times one joined another that was pending, Dropped subscribers that
	// fell behind.
	Published, Queued, Merged, Dropped uint64
}

// Stats returns the counts. Each is right, but they are not taken at one
// moment.
func (h *Hub) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{
		Subscribers: h.everyone.holders, Bytes: h.bytes,
		Published: h.published.Load(), Queued: h.queued.Load(), Merged: h.merged.Load(), Dropped: h.dropped.Load(),
	}
}
