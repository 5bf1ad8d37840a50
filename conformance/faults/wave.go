// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Wave is a number of calls that are all in the backend at the same moment. The
// zero value is none.
type Wave struct {
	// Echoes and Sleeps are how many idempotent calls there are for each edge, and
	// how many of the others.
	Echoes, Sleeps int
	// Work is how long the backend takes over each. Where Send is to do something in
	// mid-call, each takes until then at least.
	Work time.Duration
}

// Send makes a wave. at is called when every call of it has begun in the backend,
// and before any has ended, or nil. It returns the books of the wave.
func (r *Rig) Send(w Wave, at func()) ([]Entry, []Execution) {
	r.tb.Helper()
	lines, begun := r.dial(), len(r.Backend.Executions())
	defer r.hangUp(lines)
	if at != nil {
		r.Backend.Hold()
	}
	out := &load{book: &Book{}, limit: r.limit(), serial: &r.serial}
	var sending sync.WaitGroup
	for _, l := range lines {
		var calls []caller.Call
		var entries []Entry
		for range w.Echoes {
			c, e := out.echo(l, w.Work, []byte("wave"))
			calls, entries = append(calls, c), append(entries, e)
		}
		for range w.Sleeps {
			c, e := out.sleep(l, w.Work)
			calls, entries = append(calls, c), append(entries, e)
		}
		sending.Go(func() { out.make(r.tb.Context(), l, calls, entries, 0) })
	}
	if at != nil {
		all := len(lines) * (w.Echoes + w.Sleeps)
		r.Await(fmt.Sprintf("%d calls are in the backend", all), func() bool { return len(r.Backend.Executions()) >= begun+all })
		at()
		r.Backend.Release()
	}
	sending.Wait()
	return out.book.Entries(), r.Backend.Executions()[begun:]
}

// Await waits until something holds, and fails the test where it does not in
// time.
func (r *Rig) Await(what string, holds func() bool) {
	r.tb.Helper()
	testkit.Until(r.tb, what, holds)
}

// Bounds are what the oracle holds the calls of this rig to.
func (r *Rig) Bounds() Bounds { return Bounds{Attempts: Attempts, Longest: r.longest()} }

// AtRest waits until nothing is in flight and no goroutine is left of what was.
func (r *Rig) AtRest() {
	r.tb.Helper()
	for _, w := range r.watched {
		w.settled(r.tb, r.most(w))
	}
}
