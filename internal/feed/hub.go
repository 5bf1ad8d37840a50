// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// Bounds that no setting changes.
const (
	// DefaultMaxPending is as many as a filter may have URIs or task ids: who asks for so
	// many resources may have all of them pending.
	DefaultMaxPending = max(MaxURIs, MaxTaskIDs)
	// DefaultMaxBytes leaves every one of 10,000 subscribers some fifty URIs of usual length.
	DefaultMaxBytes = 64 << 20
)

// Errors of the hub.
var (
	// ErrClosed: the hub, or the subscription, has been closed.
	ErrClosed = hub.ErrClosed
	// ErrFull: the hub has no room for this subscription; see the bounds of
	// [Options].
	ErrFull = hub.ErrFull
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError = hub.SlowError

// Stats are what a hub has done so far.
type Stats = hub.Stats

// Options configure a Hub.
type Options struct {
	// MaxSubscribers is how many subscriptions there may be at a time; zero for
	// [defaults.MaxStreams].
	MaxSubscribers int
	// MaxPending is how many resources and tasks together a subscriber may have
	// pending; zero for as many as a filter may name. The lists come on top, each at
	// most once.
	MaxPending int
	// MaxBytes bounds what all subscriptions ask for together: the URIs and task
	// ids, and 64 bytes for each of them. Zero for 64 MiB.
	MaxBytes int
}

// Hub takes changes and hands them to subscribers. Make one with [New].
type Hub struct {
	hub    *hub.Hub[topicKey, item]
	index  *index
	settle atomic.Pointer[func(context.Context)]
}

// New returns a hub without subscribers.
func New(o Options) *Hub {
	defaults.Fill(&o.MaxSubscribers, defaults.MaxStreams)
	defaults.Fill(&o.MaxPending, DefaultMaxPending)
	defaults.Fill(&o.MaxBytes, DefaultMaxBytes)
	x := newIndex()
	return &Hub{index: x, hub: hub.New(x, hub.Options{
		MaxSubscribers: o.MaxSubscribers,
		MaxBytes:       o.MaxBytes,
		Queue:          hub.Bounds{Items: o.MaxPending},
	})}
}

// Publish hands a change to the subscribers that want it. It never waits for
// their readers. Its error is a *[ChangeError] or [ErrClosed], and then no subscriber
// gets the change. Of changes that are published at the same time, subscribers
// may see different orders.
func (h *Hub) Publish(c Change) error {
	if err := c.check(); err != nil {
		return err
	}
	d, err := h.hub.Deliver()
	if err != nil {
		return err
	}
	defer d.End()
	var some [4]*topic
	found := h.index.about(&c, some[:0])
	if len(found) == 0 {
		return nil
	}
	it := c.item(found)
	for _, t := range found {
		d.To(t, it)
	}
	return nil
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
	s := &Subscription{feed: h, principal: f.Principal}
	if err := h.hub.Join(&s.sub, &s.pending, wants); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends every subscription once what is pending has been read, and lets no
// new one in. It may be called again.
func (h *Hub) Close() { h.hub.Close() }

// Stats returns the counts. Each is right, but they are not taken at one
// moment.
func (h *Hub) Stats() Stats { return h.hub.Stats() }
