// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// Limits that no setting changes.
const (
	// DefaultMaxPending is the maximum number of URIs or task ids of a filter, so that a
	// subscriber to that many resources may have all of them pending.
	DefaultMaxPending = max(MaxURIs, MaxTaskIDs)
	// DefaultMaxBytes allows each of 10,000 subscribers about fifty URIs of usual length.
	DefaultMaxBytes = 64 << 20
)

// Errors of the hub.
var (
	// ErrClosed means that the hub or the subscription has been closed.
	ErrClosed = hub.ErrClosed
	// ErrFull means that the hub has no room for this subscription; see the limits in
	// [Options].
	ErrFull = hub.ErrFull
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError = hub.SlowError

// Stats are the counts of a hub.
type Stats = hub.Stats

// Options configure a Hub.
type Options struct {
	// MaxSubscribers is the maximum number of subscriptions at a time. Zero means
	// [defaults.MaxStreams].
	MaxSubscribers int
	// MaxPending is the maximum number of pending resources and tasks together of a
	// subscriber. Zero means the maximum that a filter may name. Each list may be pending
	// once in addition.
	MaxPending int
	// MaxBytes bounds what all subscriptions ask for together: the bytes of the URIs and
	// task ids, plus 64 bytes for each. Zero means 64 MiB.
	MaxBytes int
}

// Hub delivers changes to subscribers. Make one with [New].
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

// Publish delivers a change to the subscribers that want it. It never waits for their
// readers. The error is a *[ChangeError] or [ErrClosed]; then no subscriber gets the
// change. Subscribers may see concurrently published changes in different orders.
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

// Subscribe returns a subscription to the changes that f selects. Every change published
// after Subscribe has returned reaches it. The error is [ErrFull], [ErrClosed] or a
// *[FilterError].
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

// Close stops new subscriptions, and ends every subscription once its pending changes
// have been read. It may be called again.
func (h *Hub) Close() { h.hub.Close() }

// Stats returns the counts. Each count is correct, but they are not a snapshot of one
// moment.
func (h *Hub) Stats() Stats { return h.hub.Stats() }
