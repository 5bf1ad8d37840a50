// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"io/fs"
	"math"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
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

// MemoryGuard monitors the memory in use. Make one with [NewMemoryGuard]. A nil Guard is never short
// of memory.
type MemoryGuard struct {
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

// The indices of a MemoryGuard's samples.
const (
	atLive = iota
	atTotal
	atReleased
	atObjects
	atUnused
	atFree
	atCycles
)

// NewMemoryGuard returns a MemoryGuard for a limit in bytes, or nil if there is no limit.
func NewMemoryGuard(limit int64) *MemoryGuard {
	if limit <= 0 {
		return nil
	}
	g := &MemoryGuard{limit: limit}
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
func (g *MemoryGuard) Run(ctx context.Context) {
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
func (g *MemoryGuard) Sample(now time.Time) {
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
func (g *MemoryGuard) read(now time.Time) {
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
func (g *MemoryGuard) Short() bool { return g != nil && g.short.Load() }

// Refused counts rejected work.
func (g *MemoryGuard) Refused() {
	if g != nil {
		g.refused.Add(1)
	}
}

// MemoryStats are the numbers of a MemoryGuard, in bytes.
type MemoryStats struct {
	Used, Limit int64
	Refused     uint64
}

// Stats returns the numbers of the last sample. For nil they are zero.
func (g *MemoryGuard) Stats() MemoryStats {
	if g == nil {
		return MemoryStats{}
	}
	return MemoryStats{Used: g.used.Load(), Limit: g.limit, Refused: g.refused.Load()}
}

// share is the part of a container's limit that is for Go's heap and stacks; the
// rest is for what Go does not count: the binary's pages and the kernel's own.
const share = 0.9

// unlimited is above what any control group means by a number: the first version
// has one near 1<<63 for "none".
const unlimited = 1 << 60

// MemoryLimit returns the number of bytes that Go may use and the source of this limit, or
// zero if there is none. A configured number has precedence over goMemLimit, which is
// the runtime's value of GOMEMLIMIT ([math.MaxInt64] for none). goMemLimit has
// precedence over a share of the limit of the process's control group.
func MemoryLimit(configured, goMemLimit int64, root fs.FS) (bytes int64, source string) {
	if configured > 0 {
		return configured, "--memory-limit"
	}
	if goMemLimit > 0 && goMemLimit < math.MaxInt64 {
		return goMemLimit, "GOMEMLIMIT"
	}
	if group := groupLimit(root); group > 0 {
		return int64(float64(group) * share), "the control group"
	}
	return 0, ""
}

// groupLimit is the least limit of the control groups that the process is in, of
// either version; zero for none. Where the files cannot be read there is none: not
// every system has them.
func groupLimit(root fs.FS) int64 {
	least := int64(0)
	for _, file := range groupFiles(root) {
		raw, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err != nil || n <= 0 || n >= unlimited {
			continue // "max"
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// groupFiles are the files that may hold a limit: of the group of the process and
// those around it, and of the root, which is the process' own group inside a
// container.
func groupFiles(root fs.FS) []string {
	files := []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}
	raw, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(raw)) {
		// cgroups(7): hierarchy, controllers, path; version 2 is hierarchy 0 without
		// controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var base, name string
		switch {
		case parts[0] == "0" && parts[1] == "":
			base, name = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			base, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for at := path.Clean("/" + parts[2]); at != "/"; at = path.Dir(at) {
			files = append(files, path.Join(base, at, name))
		}
	}
	return files
}

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

// PaceCollector adjusts the garbage collector so that about the same amount of garbage
// accumulates in a small heap and in a large one, as with hundreds of concurrent calls:
// 16 MiB, if that is between 50 % and 250 % of the memory in use. It adjusts after each
// collection, which costs microseconds, and does nothing between collections. The stop
// function ends this and restores the percentage.
//
// Do not call it if GOGC is set.
func PaceCollector() (stop func()) {
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

// pacer is the state of Pace. Only the finalizer goroutine uses it.
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

// tracer is garbage whose finalizer runs after each collection. It is large enough to be an
// allocation by itself.
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
