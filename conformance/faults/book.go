// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// Entry is one call as its caller wrote it down.
type Entry struct {
	// Nonce is unique.
	Nonce string
	// Edge is the way that it took, Method the RPC's name.
	Edge, Method string
	// Idempotent says that a second run does no harm, and that the sidecar knows.
	Idempotent bool
	// Keyed says that the caller sent an idempotency key, which lets the sidecar
	// repeat what is not idempotent.
	Keyed bool
	// Payload is what has to come back besides the nonce, "" where nothing has to.
	Payload string
	// Asked is how long the backend was asked to take.
	Asked time.Duration
	// Sent and Done are when it began and ended.
	Sent, Done time.Time
	// Leaves is how long the caller waits before it goes away, 0 for one that stays.
	Leaves time.Duration
	// Answers are what came back. An answer with Err is none.
	Answers []caller.Answer
}

// tick is by how much a caller's time may be over for the sidecar before it is for
// the caller: Connect counts it in whole milliseconds, rounded down.
const tick = time.Millisecond

// Left reports whether the caller was gone when its call ended: it may have no
// answer. A call that ended before is one like any other. The clock decides, not
// the caller's context: most protocols tell the sidecar how long the caller waits,
// and the answer that this time is over may be there before the caller's own timer
// fires.
func (e Entry) Left() bool { return e.Leaves > 0 && e.Done.Sub(e.Sent) >= e.Leaves-tick }

// answered returns the answers that are some.
func (e Entry) answered() []caller.Answer {
	var given []caller.Answer
	for _, a := range e.Answers {
		if a.Err == nil {
			given = append(given, a)
		}
	}
	return given
}

// Took is how long the call lasted beyond what the backend was asked to take.
func (e Entry) Took() time.Duration { return e.Done.Sub(e.Sent) - e.Asked }

// Book is what all callers wrote down. The zero value is empty. It is safe for
// concurrent use.
type Book struct {
	mu      sync.Mutex
	entries []Entry
}

// Add writes entries down.
func (b *Book) Add(e ...Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, e...)
}

// Entries returns a copy of all of them.
func (b *Book) Entries() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Entry(nil), b.entries...)
}
