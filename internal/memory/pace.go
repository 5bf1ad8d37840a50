// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// usualPercent is Go's own: garbage may take as much as what is in use.
	usualPercent = 100
	// leastPercent is where it costs about a tenth more CPU per call to make do
	// with less garbage.
	leastPercent = 50
	// roomForBytes, in bytes, is the garbage of about ten calls of 3.3 MB, and
	// leastOfBytes the least percentage where nearly all that is in use are the bytes
	// of such messages. A collection passes over them.
	roomForBytes = 48 << 20
	leastOfBytes = 20
	// mostPercent keeps the garbage of a sidecar with next to nothing to do, which
	// has about 5 MiB in use, to some 12 MiB.
	mostPercent = 250
	// roomForGarbage, in bytes, is twice what a sidecar with fifty calls in flight
	// fills at the usual percentage: it has 8 MiB in use, most of it descriptors and
	// schemas, and a collection goes through them all. With half as many collections
	// a call costs about a tenth less.
	roomForGarbage = 16 << 20
	// roomForStacks is how much garbage may gather for each byte of stacks, up to mostForStacks. Stacks tell how many requests
	// are in flight. A collection looks through their stacks and about twice as much heap, whether they run or only wait: eight
	// times the stacks is the garbage per scanned byte of a sidecar with fifty calls. With three times, collections took a
	// fifth of the CPU time of 4,096 callers.
	roomForStacks = 8
	mostForStacks = 200
	// step is how far the percentage has to be off before it is set, which stops
	// all goroutines for some microseconds.
	step = 5
)

// Pace adjusts the garbage collector so that about the same amount of garbage
// accumulates in a small heap and in a large one, as with hundreds of concurrent calls:
// 16 MiB, if that is between 50 % and 250 % of the memory in use. It adjusts after each
// collection, which costs microseconds, and does nothing between collections. The stop
// function ends this and restores the percentage.
//
// Do not call it if GOGC is set.
func Pace() (stop func()) {
	p := &pacer{samples: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: scannedStacks}, {Name: "/gc/scan/globals:bytes"}, {Name: scannedHeap}}}
	p.percent = usualPercent
	debug.SetGCPercent(usualPercent)
	p.afterNext()
	return func() {
		if p.stopped.CompareAndSwap(false, true) {
			debug.SetGCPercent(usualPercent)
		}
	}
}

// pacer is the state of Pace. Only the goroutine that runs finalizers has it.
type pacer struct {
	samples []metrics.Sample
	percent int
	stopped atomic.Bool
}

// scannedHeap is the part of the heap that may hold pointers, scannedStacks the part of stacks that is in use.
const (
	scannedHeap   = "/gc/scan/heap:bytes"
	scannedStacks = "/gc/scan/stack:bytes"
)

// tracer is what a collection finds unused. It is large enough to be an allocation
// of its own.
type tracer struct{ _ [32]byte }

// afterNext has the pacer look after the next collection.
func (p *pacer) afterNext() {
	runtime.SetFinalizer(&tracer{}, func(*tracer) {
		if p.stopped.Load() {
			return
		}
		p.look()
		p.afterNext()
	})
}

// look sets the percentage by what the collection left.
func (p *pacer) look() {
	metrics.Read(p.samples)
	var use inUse
	for i := range p.samples {
		n := p.samples[i].Value.Uint64()
		switch p.samples[i].Name {
		case scannedHeap:
			use.scanned = n
			continue
		case scannedStacks:
			use.stacks = n
		}
		use.base += n
	}
	if percent := percentFor(use); percent != p.percent && (percent-p.percent >= step || p.percent-percent >= step || percent == mostPercent || percent == leastPercent || percent == leastOfBytes) {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

// inUse is what a collection left, in bytes: base is the heap, stacks and global data, all of which Go adds up; scanned is the
// part of the heap that may hold pointers.
type inUse struct{ base, scanned, stacks uint64 }

// percentFor is the percentage for what is in use. A collection costs what it has to look through, so that only pointers
// and stacks make garbage worth its memory.
func percentFor(use inUse) int {
	if use.base <= roomForGarbage*100/mostPercent {
		return mostPercent
	}
	least := min(max(use.scanned*leastPercent/use.base, roomForBytes*100/use.base, leastOfBytes), leastPercent)
	inFlight := min(use.stacks*roomForStacks*100/use.base, mostForStacks)
	return int(max(roomForGarbage*100/use.base, least, inFlight))
}
