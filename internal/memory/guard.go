// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shortAt is the part of the limit from which on memory is short, enoughAt the
	// one below which it no longer is. Between the limit and shortAt there is room
	// for what has been let in already.
	shortAt, enoughAt = 0.9, 0.8
	// sampleEvery is how often it is looked at what is in use; a look takes a
	// microsecond.
	sampleEvery = 50 * time.Millisecond
	// collectEvery is how often a process without work is made to find out what it
	// no longer uses: what is in use is known at a collection only, and without
	// work there is none.
	collectEvery = time.Second
)

// Guard monitors the memory in use. Make one with [NewGuard]. A nil Guard is never short
// of memory.
type Guard struct {
	limit int64
	used  atomic.Int64
	short atomic.Bool

	refused atomic.Uint64

	mu      sync.Mutex
	samples []metrics.Sample
	cycles  uint64
	// collected is when there was a collection, as far as is known.
	collected time.Time
}

// The indices of a Guard's samples.
const (
	atLive = iota
	atTotal
	atReleased
	atObjects
	atUnused
	atFree
	atCycles
)

// NewGuard returns a Guard for a limit in bytes, or nil if there is no limit.
func NewGuard(limit int64) *Guard {
	if limit <= 0 {
		return nil
	}
	g := &Guard{limit: limit}
	for _, name := range [...]string{
		atLive: "/gc/heap/live:bytes", atTotal: "/memory/classes/total:bytes", atReleased: "/memory/classes/heap/released:bytes",
		atObjects: "/memory/classes/heap/objects:bytes", atUnused: "/memory/classes/heap/unused:bytes",
		atFree: "/memory/classes/heap/free:bytes", atCycles: "/gc/cycles/total:gc-cycles",
	} {
		g.samples = append(g.samples, metrics.Sample{Name: name})
	}
	return g
}

// Run samples the memory until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	if g == nil {
		return
	}
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			g.Sample(now)
		}
	}
}

// Sample samples the memory once. If it is short and there was no recent garbage
// collection, it starts one.
func (g *Guard) Sample(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read(now)
	if g.short.Load() && now.Sub(g.collected) >= collectEvery {
		runtime.GC()
		g.read(now)
	}
}

// read takes the numbers. What is in use is what the last collection left of the
// heap, and everything beside the heap: garbage is not in use, however much of it
// there is.
func (g *Guard) read(now time.Time) {
	metrics.Read(g.samples)
	n := func(at int) int64 { return int64(g.samples[at].Value.Uint64()) }
	beside := n(atTotal) - n(atReleased) - n(atObjects) - n(atUnused) - n(atFree)
	used := n(atLive) + max(beside, 0)
	g.used.Store(used)
	switch {
	case float64(used) >= shortAt*float64(g.limit):
		g.short.Store(true)
	case float64(used) < enoughAt*float64(g.limit):
		g.short.Store(false)
	}
	if cycles := g.samples[atCycles].Value.Uint64(); cycles != g.cycles || g.collected.IsZero() {
		g.cycles, g.collected = cycles, now
	}
}

// Short reports whether new work must be rejected. The code that rejects it calls
// Refused.
func (g *Guard) Short() bool { return g != nil && g.short.Load() }

// Refused counts rejected work.
func (g *Guard) Refused() {
	if g != nil {
		g.refused.Add(1)
	}
}

// Stats are the numbers of a Guard, in bytes.
type Stats struct {
	Used, Limit int64
	Refused     uint64
}

// Stats returns the numbers of the last sample. For nil they are zero.
func (g *Guard) Stats() Stats {
	if g == nil {
		return Stats{}
	}
	return Stats{Used: g.used.Load(), Limit: g.limit, Refused: g.refused.Load()}
}
