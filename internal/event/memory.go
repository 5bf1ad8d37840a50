// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Defaults of Options.
const (
	// DefaultMaxSubscribers is the default of limits.max_streams, since every
	// subscriber is a stream.
	DefaultMaxSubscribers = 10000
	// DefaultMaxBacklog is the default of limits.max_subscriber_backlog: some
	// seconds of a lively bus.
	DefaultMaxBacklog = 256
	// DefaultMaxEventBytes is the default bound of a message at the edges, so
	// that what an edge admits is not lost here.
	DefaultMaxEventBytes = 4 << 20
	// DefaultMaxBacklogBytes keeps a reader that stopped reading from holding
	// DefaultMaxBacklog events of the largest size.
	DefaultMaxBacklogBytes = 16 << 20
)

// Options configure a Memory. Zero fields take the defaults of this package.
type Options struct {
	// MaxSubscribers is how many subscriptions there may be at a time.
	MaxSubscribers int
	// MaxBacklog is how many unread events a subscriber may have, MaxBacklogBytes
	// how many bytes of them. One event of the largest size always fits.
	MaxBacklog, MaxBacklogBytes int
	// MaxEventBytes bounds method and params of one event together.
	MaxEventBytes int
	// OnDrop is called for every subscriber that is dropped, by the publisher
	// whose event did not fit: it must be quick. Nil: nothing.
	OnDrop func(*SlowError)
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&o.MaxSubscribers, DefaultMaxSubscribers},
		{&o.MaxBacklog, DefaultMaxBacklog},
		{&o.MaxEventBytes, DefaultMaxEventBytes},
		{&o.MaxBacklogBytes, DefaultMaxBacklogBytes},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	o.MaxBacklogBytes = max(o.MaxBacklogBytes, o.MaxEventBytes)
	if o.OnDrop == nil {
		o.OnDrop = func(*SlowError) {}
	}
	return o
}

// Memory is the bus of one process. Make one with [NewMemory].
type Memory struct {
	opts Options
	// audience are the subscribers; a change replaces it as a whole, so that
	// publishers need no lock. Nil after Close.
	audience atomic.Pointer[[]*subscription]
	// changing serialises changes of audience.
	changing                   sync.Mutex
	published, queued, dropped atomic.Uint64
}

var _ Bus = (*Memory)(nil)

// NewMemory returns a bus without subscribers.
func NewMemory(o Options) *Memory {
	m := &Memory{opts: o.withDefaults()}
	m.audience.Store(&[]*subscription{})
	return m
}

// Publish implements [Bus]. Of events that are published at the same time,
// subscribers may see different orders.
func (m *Memory) Publish(ctx context.Context, e Event) (int, error) {
	if err := m.check(ctx, &e); err != nil {
		return 0, err
	}
	audience := m.audience.Load()
	if audience == nil {
		return 0, ErrClosed
	}
	m.published.Add(1)
	var shared *Event
	var dropped []*subscription
	queued := 0
	for _, s := range *audience {
		if !s.wants.fits(e.Method) {
			continue
		}
		if shared == nil {
			shared = e.own()
		}
		switch s.offer(shared) {
		case took:
			queued++
		case fellBehind:
			dropped = append(dropped, s)
		case ended:
		}
	}
	m.queued.Add(uint64(queued))
	m.drop(dropped)
	return queued, nil
}

func (m *Memory) check(ctx context.Context, e *Event) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.Method == "":
		return ErrNoMethod
	case len(e.Method) > MaxMethodBytes:
		return &TooLargeError{Part: "method", Size: len(e.Method), Limit: MaxMethodBytes}
	case e.size() > m.opts.MaxEventBytes:
		return &TooLargeError{Part: "event", Size: e.size(), Limit: m.opts.MaxEventBytes}
	}
	return nil
}

// drop forgets subscribers that fell behind, all of them at once, because one
// event may be too much for many.
func (m *Memory) drop(slow []*subscription) {
	if len(slow) == 0 {
		return
	}
	m.dropped.Add(uint64(len(slow)))
	m.forget(slow...)
	for _, s := range slow {
		m.opts.OnDrop(&SlowError{Missed: s.missed()})
	}
}

// Subscribe implements [Bus]. What is published after it has returned, reaches
// the subscription.
func (m *Memory) Subscribe(f Filter) (Subscription, error) {
	wants, err := compile(f)
	if err != nil {
		return nil, err
	}
	s := &subscription{bus: m, wants: wants, wake: make(chan struct{}, 1)}
	m.changing.Lock()
	defer m.changing.Unlock()
	audience := m.audience.Load()
	switch {
	case audience == nil:
		return nil, ErrClosed
	case len(*audience) >= m.opts.MaxSubscribers:
		return nil, ErrFull
	}
	larger := append(slices.Clip(*audience), s)
	m.audience.Store(&larger)
	return s, nil
}

// forget takes subscriptions out of the audience. Those that are not in it any
// more do not matter.
func (m *Memory) forget(gone ...*subscription) {
	isGone := make(map[*subscription]bool, len(gone))
	for _, s := range gone {
		isGone[s] = true
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	audience := m.audience.Load()
	if audience == nil {
		return
	}
	smaller := make([]*subscription, 0, len(*audience))
	for _, s := range *audience {
		if !isGone[s] {
			smaller = append(smaller, s)
		}
	}
	m.audience.Store(&smaller)
}

// Close implements [Bus].
func (m *Memory) Close() {
	m.changing.Lock()
	audience := m.audience.Swap(nil)
	m.changing.Unlock()
	if audience == nil {
		return
	}
	for _, s := range *audience {
		s.end(ErrClosed)
	}
}

// Stats are what a bus has done so far.
type Stats struct {
	// Subscribers is how many there are now.
	Subscribers int
	// Published counts events, Queued how many times one was put into a queue,
	// Dropped subscribers that fell behind.
	Published, Queued, Dropped uint64
}

// Stats returns the counts. Each is right, but they are not taken at one
// moment.
func (m *Memory) Stats() Stats {
	s := Stats{Published: m.published.Load(), Queued: m.queued.Load(), Dropped: m.dropped.Load()}
	if audience := m.audience.Load(); audience != nil {
		s.Subscribers = len(*audience)
	}
	return s
}
