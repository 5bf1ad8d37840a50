// SPDX-License-Identifier: Apache-2.0

package rateservice

import (
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// Outcomes of questions, by their index.
const (
	outcomeOK = iota
	outcomeOverLimit
	outcomeError
	outcomeTimeout
	outcomeCancelled
	outcomes
)

// Reasons for which the service was not asked, by their index.
const (
	skippedBreaker = iota
	skippedFull
	reasons
)

// bounds of the buckets of durations: from an answer on loopback to the longest timeout.
func bounds() [maxBuckets - 1]time.Duration {
	return [...]time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second,
	}
}

// maxBuckets is the number of bounds, and one for what is above all of them.
const maxBuckets = 12

// counts is what a Service has counted.
type counts struct {
	outcomes [outcomes]atomic.Uint64
	skipped  [reasons]atomic.Uint64
	took     durations
}

// durations counts how long questions took.
type durations struct {
	counts [maxBuckets]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

func (d *durations) add(took time.Duration) {
	n := 0
	for _, bound := range bounds() {
		if took <= bound {
			break
		}
		n++
	}
	d.counts[n].Add(1)
	d.sum.Add(int64(took))
}

func (d *durations) snapshot() stats.Histogram {
	all := bounds()
	h := stats.Histogram{Bounds: all[:], Counts: make([]uint64, maxBuckets), Sum: time.Duration(d.sum.Load())}
	for i := range d.counts {
		h.Counts[i] = d.counts[i].Load()
	}
	return h
}

// Stats is a snapshot of what a Service has counted.
type Stats struct {
	// OK and OverLimit count answers, Errors and Timeouts questions without one. Cancelled
	// counts questions whose request ended first.
	OK, OverLimit, Errors, Timeouts, Cancelled uint64
	// SkippedBreaker and SkippedFull count requests that were not asked about: the service
	// kept failing, or too many questions were open.
	SkippedBreaker, SkippedFull uint64
	// InFlight is the number of open questions, MaxInFlight its limit.
	InFlight, MaxInFlight int
	// Failing is set while the service is not asked because it kept failing.
	Failing bool
	// Took are the durations of questions, without cancelled ones.
	Took stats.Histogram
}

// Stats returns what was counted so far.
func (s *Service) Stats() Stats {
	c := &s.counts
	return Stats{
		OK: c.outcomes[outcomeOK].Load(), OverLimit: c.outcomes[outcomeOverLimit].Load(), Errors: c.outcomes[outcomeError].Load(),
		Timeouts: c.outcomes[outcomeTimeout].Load(), Cancelled: c.outcomes[outcomeCancelled].Load(),
		SkippedBreaker: c.skipped[skippedBreaker].Load(), SkippedFull: c.skipped[skippedFull].Load(),
		InFlight: int(s.open.Load()), MaxInFlight: s.opts.MaxInFlight, Failing: s.breaker.isOpen(), Took: c.took.snapshot(),
	}
}
