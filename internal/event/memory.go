// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// DefaultMaxBacklogBytes prevents a stalled reader from holding
// [defaults.MaxSubscriberBacklog] events of the maximum size.
const DefaultMaxBacklogBytes = 16 << 20

// Options configure a Memory. Zero fields take the defaults of this package.
type Options struct {
	// MaxSubscribers is the maximum number of subscriptions at a time.
	MaxSubscribers int
	// MaxBacklog is the maximum number of unread events of a subscriber, MaxBacklogBytes
	// their maximum total size. One event of the maximum size always fits.
	MaxBacklog, MaxBacklogBytes int
	// MaxEventBytes bounds the method and params of one event together.
	MaxEventBytes int
	// OnDrop is called for every dropped subscriber, by the publisher whose event did not
	// fit. It must return quickly. Nil means no callback.
	OnDrop func(*SlowError)
}

func (o Options) withDefaults() Options {
	defaults.Fill(&o.MaxSubscribers, defaults.MaxStreams)
	defaults.Fill(&o.MaxBacklog, defaults.MaxSubscriberBacklog)
	defaults.Fill(&o.MaxEventBytes, defaults.MaxMessageBytes)
	defaults.Fill(&o.MaxBacklogBytes, DefaultMaxBacklogBytes)
	o.MaxBacklogBytes = max(o.MaxBacklogBytes, o.MaxEventBytes)
	return o
}

// Memory is the bus of one process. Make one with [NewMemory].
type Memory struct {
	maxEventBytes int
	index         index
	hub           *hub.Hub[*matcher, *Event]
}

// NewMemory returns a bus without subscribers.
func NewMemory(o Options) *Memory {
	o = o.withDefaults()
	m := &Memory{maxEventBytes: o.MaxEventBytes, index: index{}}
	m.hub = hub.New(m.index, hub.Options{
		MaxSubscribers: o.MaxSubscribers,
		Queue:          hub.Bounds{Items: o.MaxBacklog, Bytes: o.MaxBacklogBytes},
		OnDrop:         o.OnDrop,
	})
	return m
}

// Publish queues an event for the subscribers that want it, and returns the number of
// these subscribers. It does not wait for readers. It copies the data that it keeps. The
// error is a *[TooLargeError], [ErrNoMethod], [ErrClosed], or the context's; then the
// event is not delivered. Subscribers may see concurrently published events in different
// orders.
func (m *Memory) Publish(ctx context.Context, e Event) (subscribers int, err error) {
	if err := m.check(ctx, &e); err != nil {
		return 0, err
	}
	d, err := m.hub.Deliver()
	if err != nil {
		return 0, err
	}
	defer func() { subscribers = d.End() }()
	var shared *Event
	for _, t := range m.index {
		if !t.Key.fits(e.Method) {
			continue
		}
		if shared == nil {
			shared = e.own()
		}
		d.To(t, shared)
	}
	return 0, nil
}

func (m *Memory) check(ctx context.Context, e *Event) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.Method == "":
		return ErrNoMethod
	case len(e.Method) > MaxMethodBytes:
		return &TooLargeError{Part: "method", Size: len(e.Method), Limit: MaxMethodBytes}
	case e.Size() > m.maxEventBytes:
		return &TooLargeError{Part: "event", Size: e.Size(), Limit: m.maxEventBytes}
	}
	return nil
}

// Subscribe returns a subscription to the events that f selects. Every event published
// after Subscribe has returned reaches it. The error is [ErrFull], [ErrClosed] or a
// *[FilterError].
func (m *Memory) Subscribe(f Filter) (Subscription, error) {
	wants, err := compile(f)
	if err != nil {
		return nil, err
	}
	s := &subscription{}
	if err := m.hub.Join(&s.Subscription, &s.unread, []hub.Want[*matcher]{{Key: wants}}); err != nil {
		return nil, err
	}
	return s, nil
}

// SubscribeAfter returns [ErrNotKept]: a bus in memory keeps nothing.
func (m *Memory) SubscribeAfter(context.Context, Filter, uint64) (Subscription, error) {
	return nil, ErrNotKept
}

// Check returns the error with which [Memory.Publish] would refuse an event, or nil.
func (m *Memory) Check(ctx context.Context, e *Event) error { return m.check(ctx, e) }

// Close ends each subscription once its queue has been read. It may be called again.
func (m *Memory) Close() { m.hub.Close() }

// Stats are the counts of a bus.
type Stats = hub.Stats

// Stats returns the counts. Each count is correct, but they are not a snapshot of one
// moment.
func (m *Memory) Stats() Stats { return m.hub.Stats() }

// subscription is a queue with one reader and many writers.
type subscription struct {
	hub.Subscription[*matcher, *Event]
	unread hub.InOrder[*Event]
}

type topic = hub.Topic[*matcher, *Event]

// index has a topic for each filter, by its text. So a publisher pays once for all
// subscribers with the same filter. Guarded by the hub.
type index map[string]*topic

// Topic implements [hub.Index].
func (x index) Topic(key *matcher) (*topic, bool) {
	if t, ok := x[key.text]; ok {
		return t, false
	}
	t := &topic{Key: key}
	x[key.text] = t
	return t, true
}

// Release implements [hub.Index].
func (x index) Release(t *topic) { delete(x, t.Key.text) }

// Cost implements [hub.Index]. It is 0, because the maximum number of subscribers also
// bounds the filters.
func (x index) Cost(*matcher) int { return 0 }
