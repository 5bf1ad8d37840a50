// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
)

const (
	// topWindow is how far rates and percentiles look back.
	topWindow = 10 * time.Second
	// maxTopEnded is how many calls that ended are kept.
	maxTopEnded = 200
	// maxTopTools is how many tools a message has; where it has so many, there may be others.
	maxTopTools = 256
)

// topState is what is known of a sidecar. It is never changed: each message makes another one.
type topState struct {
	server *adminv1.GetServerResponse
	last   *adminv1.WatchResponse
	// samples are the messages of the window, the oldest first.
	samples []*adminv1.WatchResponse
	// ended are calls, the latest first; omitted is how many others ended meanwhile.
	ended   []*adminv1.Call
	omitted int64
	// away is why there are no messages; empty while they come.
	away string
}

// with returns the state after a message. The first message of a stream forgets what came before: it may be another process.
func (s topState) with(m *adminv1.WatchResponse, isFirst bool) topState {
	if isFirst {
		s = topState{server: s.server}
	}
	samples := append(slices.Clone(s.samples), m)
	for len(samples) > 2 && m.GetTime().AsTime().Sub(samples[1].GetTime().AsTime()) >= topWindow {
		samples = samples[1:]
	}
	ended := slices.Clone(m.GetEnded())
	slices.Reverse(ended)
	ended = append(ended, s.ended...)
	s.omitted += m.GetEndedOmitted() + int64(max(len(ended)-maxTopEnded, 0))
	s.ended = ended[:min(len(ended), maxTopEnded)]
	s.samples, s.last, s.away = samples, m, ""
	return s
}

// toolRate is what happened to a tool, or to all tools, in the window.
type toolRate struct {
	name          string
	calls, failed float64 // in a second
	took          durations
	inFlight      int64
}

// rates are those of each tool and of all tools; of the window, ok is false before there are two messages.
func (s topState) rates() (tools []toolRate, all toolRate, ok bool) {
	if s.last == nil {
		return nil, all, false
	}
	first := s.samples[0]
	elapsed := s.last.GetTime().AsTime().Sub(first.GetTime().AsTime()).Seconds()
	before := make(map[string]*adminv1.ToolCounts, len(first.GetTools()))
	for _, t := range first.GetTools() {
		before[t.GetName()] = t
	}
	for _, t := range s.last.GetTools() {
		rate := toolRate{name: t.GetName(), inFlight: t.GetInFlight()}
		was, known := before[t.GetName()]
		// A tool that comes late into a full list was called before, and how often is unknown.
		known = known || len(first.GetTools()) < maxTopTools
		if known && elapsed > 0 && t.GetCalls() >= was.GetCalls() && t.GetFailed() >= was.GetFailed() {
			rate.calls = float64(t.GetCalls()-was.GetCalls()) / elapsed
			rate.failed = float64(t.GetFailed()-was.GetFailed()) / elapsed
			rate.took.add(was, t)
			all.took.add(was, t)
		}
		all.calls += rate.calls
		all.failed += rate.failed
		all.inFlight += rate.inFlight
		tools = append(tools, rate)
	}
	return tools, all, elapsed > 0
}

// durations are counts of calls by how long they took.
type durations struct {
	bounds []float64 // upper ones, in seconds
	counts []uint64  // one more than bounds
}

// add counts what came between two counts of a tool. Counts with other bounds, or that do not fit theirs, add nothing.
func (d *durations) add(was, is *adminv1.ToolCounts) {
	bounds, counts := is.GetBounds(), is.GetBuckets()
	if len(counts) != len(bounds)+1 || d.counts != nil && !slices.Equal(d.bounds, bounds) ||
		was != nil && len(was.GetBuckets()) != 0 && !slices.Equal(was.GetBounds(), bounds) {
		return
	}
	if d.counts == nil {
		d.bounds, d.counts = bounds, make([]uint64, len(counts))
	}
	for i, n := range counts {
		if i < len(was.GetBuckets()) {
			n -= min(n, was.GetBuckets()[i])
		}
		d.counts[i] += n
	}
}

// quantile returns the time in seconds that a share of the calls did not exceed, as if they were spread evenly in their
// bucket; NaN without calls, and infinite beyond the last bound.
func (d *durations) quantile(share float64) float64 {
	var total uint64
	for _, n := range d.counts {
		total += n
	}
	rank, below := share*float64(total), 0.0
	for i, n := range d.counts {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		if i == len(d.bounds) {
			return math.Inf(1)
		}
		low := 0.0
		if i > 0 {
			low = d.bounds[i-1]
		}
		return low + (d.bounds[i]-low)*(rank-below)/float64(n)
	}
	return math.NaN()
}

// topOrders are the orders of tools, by what a person reads of them.
func topOrders() []string { return []string{"calls/s", "errors/s", "p95", "in flight", "name"} }

// sortRates puts tools into an order, those that are equal by name.
func sortRates(tools []toolRate, order string) {
	number := func(r *toolRate) float64 {
		switch order {
		case "calls/s":
			return r.calls
		case "errors/s":
			return r.failed
		case "p95":
			return r.took.quantile(p95)
		case "in flight":
			return float64(r.inFlight)
		}
		return 0
	}
	slices.SortStableFunc(tools, func(a, b toolRate) int {
		return cmp.Or(cmp.Compare(number(&b), number(&a)), cmp.Compare(a.name, b.name)) // NaN comes last
	})
}

// The shares of calls whose durations are shown.
const (
	p50 = 0.50
	p95 = 0.95
)
