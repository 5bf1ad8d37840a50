// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"sync/atomic"
	"time"
)

// Bounds of the buckets, each included in its bucket.
//
// callBounds spread from the fastest call over loopback to the default timeout.
// overheadBounds resolve what the sidecar itself adds, which is tens of
// microseconds; its slow end shows pauses of the machine. mcpBounds are those that
// OpenTelemetry's conventions for MCP ask for.
var (
	callBounds = [...]time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	}
	overheadBounds = [...]time.Duration{
		5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 30 * time.Microsecond, 50 * time.Microsecond, 75 * time.Microsecond,
		100 * time.Microsecond, 150 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond,
	}
	mcpBounds = [...]time.Duration{
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute,
	}
)

// maxBuckets is the most bounds that a histogram has.
const maxBuckets = len(callBounds)

// histogram counts durations. The zero value is ready.
type histogram struct {
	// counts has one more for what is above all bounds.
	counts [maxBuckets + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
	// exemplars are made for the first sampled request, one for each bucket.
	exemplars atomic.Pointer[[maxBuckets + 1]exemplar]
}

// add counts a duration, and keeps the trace of its request, if there is one.
func (h *histogram) add(bounds []time.Duration, d time.Duration, of Trace) {
	n := 0
	for n < len(bounds) && d > bounds[n] {
		n++
	}
	h.counts[n].Add(1)
	h.sum.Add(int64(d))
	if of != (Trace{}) {
		h.exemplar(n).keep(of, d, time.Now())
	}
}

func (h *histogram) exemplar(bucket int) *exemplar {
	all := h.exemplars.Load()
	if all == nil {
		h.exemplars.CompareAndSwap(nil, new([maxBuckets + 1]exemplar))
		all = h.exemplars.Load()
	}
	return &all[bucket]
}

// Histogram counts durations by bucket.
type Histogram struct {
	// Bounds are the upper bounds of the buckets. Counts are the numbers of durations in
	// each bucket; the last one is for durations above all bounds.
	Bounds []time.Duration
	Counts []uint64
	Sum    time.Duration
	// Exemplars are sampled requests, at most one for each bucket.
	Exemplars []Exemplar
}

// Count returns the number of durations.
func (h Histogram) Count() uint64 {
	n := uint64(0)
	for _, c := range h.Counts {
		n += c
	}
	return n
}

func (h *histogram) snapshot(bounds []time.Duration) Histogram {
	out := Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1), Sum: time.Duration(h.sum.Load())}
	for i := range out.Counts {
		out.Counts[i] = h.counts[i].Load()
	}
	all := h.exemplars.Load()
	for i := range out.Counts {
		if all == nil {
			break
		}
		if one, ok := all[i].load(); ok {
			out.Exemplars = append(out.Exemplars, one)
		}
	}
	return out
}
