// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Event is one notification on its way. Subscribers share it and must not
// change it.
type Event struct {
	// Method says what it is about; at most [MaxMethodBytes].
	Method string
	// Params is the JSON text of an object, or nil.
	Params json.RawMessage
	// Publisher is the scope in which order holds: a publisher of one event
	// after the other, under one number of its own.
	Publisher uint64
}

// MaxMethodBytes is the longest method: what Notification.method of the contract
// outrigger.v1 admits.
const MaxMethodBytes = 1024

func (e *Event) size() int { return len(e.Method) + len(e.Params) }

// own returns a copy that keeps nothing else alive: method and params may be
// parts of a whole batch.
func (e *Event) own() *Event {
	return &Event{Method: strings.Clone(e.Method), Params: bytes.Clone(e.Params), Publisher: e.Publisher}
}

// Bus takes events and hands them to subscribers.
type Bus interface {
	// Publish queues an event for the subscribers that want it, and returns how
	// many those are. It does not wait for readers. What it keeps it copies. Its
	// error is a *[TooLargeError], [ErrNoMethod], [ErrClosed], or the context's,
	// and then the event is not delivered.
	Publish(ctx context.Context, e Event) (subscribers int, err error)
	// Subscribe returns the events from now on that f lets through. Its error is
	// [ErrFull], [ErrClosed] or a *[FilterError].
	Subscribe(f Filter) (Subscription, error)
	// Close ends all subscriptions once their queues have been read. It may be
	// called again.
	Close()
}

// Subscription is one reader's queue. It has to be closed.
type Subscription interface {
	// Next returns the next event, or waits for it until ctx ends. After the end
	// of the subscription its error is a *[SlowError] where the reader fell
	// behind, and [ErrClosed] where it or the bus was closed. One reader at a
	// time.
	Next(ctx context.Context) (*Event, error)
	// Close gives up what is unread. It may be called again, and by others than
	// the reader.
	Close()
}

// Sentinels of this package.
var (
	// ErrClosed: the bus, or the subscription, has been closed.
	ErrClosed = errors.New("event: closed")
	// ErrFull: there are as many subscribers as the bus has room for.
	ErrFull = errors.New("event: too many subscribers")
	// ErrNoMethod: the event has no method.
	ErrNoMethod = errors.New("event: no method")
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError struct {
	// Missed is how many events the reader was not given: what was in its queue,
	// and the one that did not fit.
	Missed int
}

// Error implements error.
func (e *SlowError) Error() string {
	return fmt.Sprintf("event: the subscriber fell behind and missed %d events", e.Missed)
}

// TooLargeError refuses an event.
type TooLargeError struct {
	// Part is "method" or "event", Size its bytes and Limit what is admitted.
	Part        string
	Size, Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event: the %s has %d bytes, over the limit of %d", e.Part, e.Size, e.Limit)
}
