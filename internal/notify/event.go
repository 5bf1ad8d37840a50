// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Event is one notification in flight. Subscribers share it and must not change it.
type Event struct {
	// Method is the method of the notification, of at most [MaxMethodBytes].
	Method string
	// Params is the JSON text of an object, or nil.
	Params json.RawMessage
	// Publisher identifies the publisher. Order is guaranteed among the events of one publisher, which publishes one event after
	// the other under its own number.
	Publisher uint64
	// Sequence is the place of the event among all, where the bus keeps events; 0 elsewhere.
	Sequence uint64
	// Lost is the number of events that this process never saw, of all those before this one. A subscriber whose next event has
	// a larger one has missed events.
	Lost uint64
}

const (
	// MaxMethodBytes is the maximum length of a method, as Notification.method of the contract outrigger.v1 allows.
	MaxMethodBytes = 1024
	// maxPatterns is the maximum number of patterns in one filter, as EventFilter.methods of the contract allows. Every
	// publisher pays for them.
	maxPatterns = 256
	// defaultMaxBacklogBytes prevents a stalled reader from holding [defaults.MaxSubscriberBacklog] events of the maximum size.
	defaultMaxBacklogBytes = 16 << 20
)

// key implements item: events are kept in order.
func (e *Event) key() key { return key{} }

// weight implements item.
func (e *Event) weight() (items, bytes int) { return 1, e.size() }

func (e *Event) size() int { return len(e.Method) + len(e.Params) }

// EventSubscription is one reader's queue of events. It must be closed.
type EventSubscription interface {
	// Next returns the next event, or waits for it until ctx ends. When the subscription has ended, the error is a *[SlowError]
	// if the reader fell behind, or [ErrClosed] if the subscription or the bus was closed. There is one reader at a time.
	Next(ctx context.Context) (*Event, error)
	// Close discards the unread events. It may be called again, and by other goroutines than the reader.
	Close()
}

// Errors of a bus, beside [ErrClosed] and [ErrFull].
var (
	// ErrNoMethod means that the event has no method.
	ErrNoMethod = errors.New("event: no method")
	// ErrNotKept means that the bus keeps no events, so that no one can go on after one.
	ErrNotKept = errors.New("event: the bus keeps no events")
	// ErrUnavailable means that the bus of the replicas did not answer, or has no room. An event may have been published.
	ErrUnavailable = errors.New("event: the bus is unavailable")
	// ErrTooLarge means that the servers which keep events do not take one of this size.
	ErrTooLarge = errors.New("event: too large for the servers that keep it")
)

// GapError means that a subscriber cannot go on after an event, because it would miss some.
type GapError struct {
	// After is what was asked for. First and Last are the events that are kept; Last is smaller than First if none is.
	After, First, Last uint64
}

// Error implements error.
func (e *GapError) Error() string {
	if e.After > e.Last {
		return fmt.Sprintf("event: there is no event %d yet; the last one is %d", e.After, e.Last)
	}
	return fmt.Sprintf("event: events after %d have been dropped; the first that is kept is %d", e.After, e.First)
}

// TooLargeError reports an event that is too large.
type TooLargeError struct {
	// Part is "method" or "event". Size is its size and Limit the maximum, in bytes.
	Part        string
	Size, Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event: the %s has %d bytes, over the limit of %d", e.Part, e.Size, e.Limit)
}

// BusOptions configure a [Bus]. Zero fields have defaults.
type BusOptions struct {
	// MaxSubscribers is the maximum number of subscriptions at a time.
	MaxSubscribers int
	// MaxBacklog is the maximum number of unread events of a subscriber, MaxBacklogBytes their maximum total size. One event of
	// the maximum size always fits.
	MaxBacklog, MaxBacklogBytes int
	// MaxEventBytes bounds the method and params of one event together.
	MaxEventBytes int
	// OnDrop is called for every dropped subscriber, by the publisher whose event did not fit. It must return quickly. Nil means
	// no callback.
	OnDrop func(*SlowError)
}

// Bus delivers the events of one process: canonical notifications arrive at the JSON-RPC edges and through
// ToolService.Publish, and leave through ToolService.Subscribe. Make one with [NewBus].
type Bus struct {
	hub[*Event]

	maxEventBytes int
}

// NewBus returns a bus without subscribers.
func NewBus(o BusOptions) *Bus {
	defaults.Fill(&o.MaxSubscribers, defaults.MaxStreams)
	defaults.Fill(&o.MaxBacklog, defaults.MaxSubscriberBacklog)
	defaults.Fill(&o.MaxEventBytes, defaults.MaxMessageBytes)
	defaults.Fill(&o.MaxBacklogBytes, defaultMaxBacklogBytes)
	b := &Bus{maxEventBytes: o.MaxEventBytes}
	b.init(limits{subscribers: o.MaxSubscribers, items: o.MaxBacklog, bytes: max(o.MaxBacklogBytes, o.MaxEventBytes)})
	b.onDrop = o.OnDrop
	return b
}

// Publish queues an event for the subscribers that want it, and returns the number of these subscribers. It does not wait for
// readers. It copies the data that it keeps. The error is a *[TooLargeError], [ErrNoMethod], [ErrClosed], or the context's;
// then the event is not delivered. Subscribers may see concurrently published events in different orders.
func (b *Bus) Publish(ctx context.Context, e Event) (subscribers int, err error) {
	if err := b.check(ctx, &e); err != nil {
		return 0, err
	}
	return b.publish(func() (shared *Event, found []*topic[*Event]) {
		for _, t := range b.topics {
			if t.patterns.match(e.Method) {
				found = append(found, t)
			}
		}
		if len(found) > 0 { // method and params may be parts of a whole batch
			e.Method, e.Params = strings.Clone(e.Method), bytes.Clone(e.Params)
			shared = &e
		}
		return shared, found
	})
}

// check returns the error with which [Bus.Publish] refuses an event, or nil.
func (b *Bus) check(ctx context.Context, e *Event) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.Method == "":
		return ErrNoMethod
	case len(e.Method) > MaxMethodBytes:
		return &TooLargeError{Part: "method", Size: len(e.Method), Limit: MaxMethodBytes}
	case e.size() > b.maxEventBytes:
		return &TooLargeError{Part: "event", Size: e.size(), Limit: b.maxEventBytes}
	}
	return nil
}

// Subscribe returns a subscription to the events whose whole method matches one of the patterns, in which * matches any run of
// characters; without patterns, to all events. Every event published after Subscribe has returned reaches it. The error is
// [ErrFull], [ErrClosed] or a *[FilterError].
func (b *Bus) Subscribe(patterns []string) (EventSubscription, error) {
	if err := checkNames("pattern", patterns, maxPatterns, MaxMethodBytes); err != nil {
		return nil, err
	}
	s := &subscription[*Event]{}
	if err := b.join(s, []want{wantOf(patterns)}); err != nil {
		return nil, err
	}
	return s, nil
}

// wantOf makes what a filter asks for. Filters with the same patterns share a topic. The patterns are parts of its name and
// keep nothing else alive. The name has the length of each pattern before it, so that no two lists have the same.
func wantOf(methods []string) want {
	var text []byte
	own := distinct(methods)
	for _, pattern := range own {
		text = strconv.AppendInt(text, int64(len(pattern)), 10)
		text = append(append(text, ':'), pattern...)
	}
	name := string(text)
	rest := name
	for i, pattern := range own {
		_, rest, _ = strings.Cut(rest, ":")
		own[i], rest = rest[:len(pattern)], rest[len(pattern):]
	}
	out := want{key: key{name: name}, patterns: patterns{isAll: len(own) == 0}}
	for _, pattern := range own {
		if strings.Contains(pattern, glob.Anything) {
			out.patterns.globs = append(out.patterns.globs, pattern)
		} else {
			out.patterns.names = append(out.patterns.names, pattern)
		}
	}
	return out
}

// patterns are those of an event filter: names are whole methods, sorted; globs have a *.
type patterns struct {
	isAll        bool // there is none, and all events match
	names, globs []string
}

// match reports whether a method matches one of them. Whole methods are searched for: there may be [maxPatterns] of them in
// each of ten thousand filters, and every event is compared with all filters.
func (p *patterns) match(method string) bool {
	if _, ok := slices.BinarySearch(p.names, method); ok || p.isAll {
		return true
	}
	return glob.MatchAny(p.globs, method)
}

// SubscribeAfter returns [ErrNotKept]: a bus in memory keeps nothing.
func (b *Bus) SubscribeAfter(context.Context, []string, uint64) (EventSubscription, error) {
	return nil, ErrNotKept
}
