// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// Event is one notification in flight. Subscribers share it and must not change it.
type Event struct {
	// Method is the method of the notification, of at most [MaxMethodBytes].
	Method string
	// Params is the JSON text of an object, or nil.
	Params json.RawMessage
	// Publisher identifies the publisher. Order is guaranteed among the events of one
	// publisher, which publishes one event after the other under its own number.
	Publisher uint64
	// Sequence is the place of the event among all, where the bus keeps events; 0 elsewhere.
	Sequence uint64
	// Lost is the number of events that this process never saw, of all those before this one. A subscriber whose next event
	// has a larger one has missed events.
	Lost uint64
}

// MaxMethodBytes is the maximum length of a method, as Notification.method of the
// contract outrigger.v1 allows.
const MaxMethodBytes = 1024

// Size returns the size of an event in bytes.
func (e *Event) Size() int { return len(e.Method) + len(e.Params) }

// own returns a copy that keeps nothing else alive: method and params may be
// parts of a whole batch.
func (e *Event) own() *Event {
	return &Event{Method: strings.Clone(e.Method), Params: bytes.Clone(e.Params), Publisher: e.Publisher, Sequence: e.Sequence, Lost: e.Lost}
}

// Subscription is one reader's queue. It must be closed.
type Subscription interface {
	// Next returns the next event, or waits for it until ctx ends. When the subscription
	// has ended, the error is a *[SlowError] if the reader fell behind, or [ErrClosed] if
	// the subscription or the bus was closed. There is one reader at a time.
	Next(ctx context.Context) (*Event, error)
	// Close discards the unread events. It may be called again, and by other goroutines
	// than the reader.
	Close()
}

// Errors of a bus.
var (
	// ErrClosed means that the bus or the subscription has been closed.
	ErrClosed = hub.ErrClosed
	// ErrFull means that the bus has reached its maximum number of subscribers.
	ErrFull = hub.ErrFull
	// ErrNoMethod means that the event has no method.
	ErrNoMethod = errors.New("event: no method")
	// ErrNotKept means that the bus keeps no events, so that nobody can go on after one.
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

// SlowError ends the subscription of a reader that fell behind.
type SlowError = hub.SlowError

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
