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

// Size is how many bytes an event takes.
func (e *Event) Size() int { return len(e.Method) + len(e.Params) }

// own returns a copy that keeps nothing else alive: method and params may be
// parts of a whole batch.
func (e *Event) own() *Event {
	return &Event{Method: strings.Clone(e.Method), Params: bytes.Clone(e.Params), Publisher: e.Publisher}
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

// Errors of a bus.
var (
	// ErrClosed: the bus, or the subscription, has been closed.
	ErrClosed = hub.ErrClosed
	// ErrFull: there are as many subscribers as the bus has room for.
	ErrFull = hub.ErrFull
	// ErrNoMethod: the event has no method.
	ErrNoMethod = errors.New("event: no method")
)

// SlowError ends the subscription of a reader that fell behind.
type SlowError = hub.SlowError

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
