// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names of rows in a Saturation.
const (
	OfSidecar, OfProxy, OfOther = "sidecar", "proxy", "other"
	Alone, BesideSlow           = "alone", "beside the slow tool"
	ManySmall, FewLarge         = "beside many small calls", "beside few calls of 400 KB"
	CostResult, CostError       = "result", "tool's own error"
	CostRejected, CostFloor     = "rejected call", "empty 503 of net/http"
)

// Goals of the load benchmark. All are ratios but the two latencies, which have room for any machine.
const (
	ofOwnPeak, ofProxy = 0.85, 0.75
	rejectedCost       = 0.4
	errorCost          = 1.2
	slowBackendGoodput = 0.95
	slowBackendP99     = 300 * time.Millisecond
	besideSlow         = 2.0
	quietP99           = 10 * time.Millisecond
	recovered          = 500 * time.Millisecond
	answeredTail       = 3.0
	allAnswered        = 0.99
)

// Saturation is one run of the load benchmark.
type Saturation struct {
	Head

	Rounds             int
	Window             time.Duration
	Crowd, Connections int
	// Closed has goodput by the number of callers, Open by the rate that is offered, as a multiple of the capacity.
	Closed, Open Curves
	// Costs, SlowTool, SlowBackend and Neighbours are rows of the page's table.
	Costs, SlowTool, SlowBackend, Neighbours Curves
	// Edges has the CPU time of calls over the Protobuf edges, and of empty proxies of the same kind.
	Edges Curves
	// Catalogs is what large catalogs take.
	Catalogs CatalogPoints
}

// LoadPoint is what happened at one load. Answered, Rejected, Failed and Unsent are per second.
type LoadPoint struct {
	// X is the number of callers, or the multiple of the capacity.
	X                                  float64
	Capacity                           float64
	Answered, Rejected, Failed, Unsent float64
	P50, P99, CPU, Recovery            time.Duration
}

// Curves are points by subject, one for each round. The zero value has none.
type Curves map[string][]LoadPoint

// Add adds a point.
func (c *Curves) Add(subject string, p LoadPoint) {
	if *c == nil {
		*c = Curves{}
	}
	(*c)[subject] = append((*c)[subject], p)
}

// xs are the loads at which a subject was measured, ascending.
func (c Curves) xs(subject string) []float64 {
	var out []float64
	for _, p := range c[subject] {
		out = append(out, p.X)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// at is one figure of a subject at a load, by round.
func (c Curves) at(subject string, x float64, get func(LoadPoint) float64) series {
	var out series
	for _, p := range c[subject] {
		if p.X == x {
			out = append(out, get(p))
		}
	}
	return out
}

func goodput(p LoadPoint) float64       { return p.Answered }
func ofCapacity(p LoadPoint) float64    { return p.Answered / p.Capacity }
func p99Millis(p LoadPoint) float64     { return float64(p.P99) / 1e6 }
func p50Millis(p LoadPoint) float64     { return float64(p.P50) / 1e6 }
func cpuMicros(p LoadPoint) float64     { return float64(p.CPU) / 1e3 }
func recoverMillis(p LoadPoint) float64 { return float64(p.Recovery) / 1e6 }

// peak is the most that a subject reached at any number of callers, by the medians.
func (c Curves) peak(subject string) float64 {
	most := 0.0
	for _, x := range c.xs(subject) {
		most = max(most, c.at(subject, x, goodput).median())
	}
	return most
}

// least is the smallest median of a subject from its peak on, and where it is.
func (c Curves) least(subject string) (share, at float64) {
	most, past := c.peak(subject), false
	share = 1
	for _, x := range c.xs(subject) {
		v := c.at(subject, x, goodput).median()
		past = past || v == most
		if past && v/most < share {
			share, at = v/most, x
		}
	}
	return share, at
}

// Goals compares the figures with what is wanted.
func (s *Saturation) Goals() []Goal {
	out := s.closedGoals()
	out = append(out, s.openGoals()...)
	out = append(out, s.rowGoals()...)
	out = append(out, s.edgeGoals()...)
	return append(out, s.Catalogs.goals()...)
}

func (s *Saturation) closedGoals() []Goal {
	share, at := s.Closed.least(OfSidecar)
	out := []Goal{{
		What: "goodput beyond the peak, callers in closed loops, of the peak", Wanted: percent(ofOwnPeak),
		Figure: fmt.Sprintf("%s at %s callers", percent(share), number(at)), Kept: share >= ofOwnPeak,
	}}
	worst, where := 9.0, 0.0
	for _, x := range s.Closed.xs(OfSidecar) {
		base := s.Closed.at(OfProxy, x, goodput)
		if ratio := s.Closed.at(OfSidecar, x, goodput).over(base); len(base) > 0 && ratio.median() < worst {
			worst, where = ratio.median(), x
		}
	}
	return append(out, Goal{
		What: "goodput of the proxy's, at any number of callers", Wanted: percent(ofProxy),
		Figure: fmt.Sprintf("%s at %s callers", percent(worst), number(where)), Kept: worst >= ofProxy,
	})
}

// openWanted is the share of the capacity that has to be answered at a multiple of it.
func openWanted(multiple float64) float64 {
	switch {
	case multiple <= 1:
		return 0.9 * multiple
	case multiple <= 2:
		return 0.9
	case multiple <= 4:
		return 0.75
	}
	return 0.5
}

func (s *Saturation) openGoals() []Goal {
	var out []Goal
	var base float64
	for _, x := range s.Open.xs(OfSidecar) {
		share := s.Open.at(OfSidecar, x, ofCapacity)
		out = append(out, Goal{
			What: "goodput at " + number(x) + " times the capacity", Wanted: percent(openWanted(x)), Figure: percents(share), Kept: share.median() >= openWanted(x),
		})
		tail := s.Open.at(OfSidecar, x, p99Millis)
		if x < 1 {
			base = tail.median()
			continue
		}
		out = append(out, s.besideProxy(x)...)
		if base > 0 {
			times := tail.median() / base
			out = append(out, Goal{
				What: "p99 of the answered at " + number(x) + " times, beside that below the capacity", Wanted: "<= " + number(answeredTail) + " times",
				Figure: fmt.Sprintf("%s times (%s ms)", number(times), tail.spread()), Kept: times <= answeredTail,
			})
		}
		back := s.Open.at(OfSidecar, x, recoverMillis)
		out = append(out, Goal{
			What: "time until half of the capacity is answered again, after " + number(x) + " times", Wanted: "<= " + recovered.String(),
			Figure: back.spread() + " ms", Kept: back.median() <= float64(recovered.Milliseconds()),
		})
	}
	return out
}

// besideProxy compares goodputs at the same multiple of each one's own capacity. Generator, backend and kernel share the
// machine with the process in the middle, so that the empty proxy shows what an open loop leaves of a capacity that closed
// loops have measured.
func (s *Saturation) besideProxy(x float64) []Goal {
	proxy := s.Open.at(OfProxy, x, goodput)
	if len(proxy) == 0 {
		return nil
	}
	ratio := s.Open.at(OfSidecar, x, goodput).over(proxy)
	return []Goal{{
		What: "the same: goodput of the proxy's at " + number(x) + " times its capacity", Wanted: percent(ofProxy),
		Figure: percents(ratio) + "; the proxy keeps " + percents(s.Open.at(OfProxy, x, ofCapacity)) + " of what it can do", Kept: ratio.median() >= ofProxy,
	}}
}

func (s *Saturation) rowGoals() []Goal {
	result := s.Costs.at(CostResult, 0, cpuMicros)
	rejectedBy, errorBy := s.Costs.at(CostRejected, 0, cpuMicros).over(result), s.Costs.at(CostError, 0, cpuMicros).over(result)
	floor := s.Costs.at(CostFloor, 0, cpuMicros).over(result)
	out := []Goal{
		{What: "CPU of a rejected call, of a result's", Wanted: "<= " + number(rejectedCost), Figure: rejectedBy.spread() + "; the floor is " + floor.spread(), Kept: rejectedBy.median() <= rejectedCost},
		{What: "CPU of a tool's own error, of a result's", Wanted: "<= " + number(errorCost), Figure: errorBy.spread(), Kept: errorBy.median() <= errorCost},
	}
	out = append(out, s.slowToolGoals()...)
	for _, x := range s.SlowBackend.xs(OfSidecar) {
		share, tail := s.SlowBackend.at(OfSidecar, x, ofCapacity), s.SlowBackend.at(OfSidecar, x, p99Millis)
		wanted := min(slowBackendGoodput, slowBackendGoodput*x)
		out = append(out,
			Goal{What: "a slow backend offered " + number(x) + " times what it can do: goodput", Wanted: percent(wanted), Figure: percents(share), Kept: share.median() >= wanted},
			Goal{What: "the same: p99 of the answered", Wanted: "<= " + slowBackendP99.String(), Figure: tail.spread() + " ms", Kept: tail.median() <= float64(slowBackendP99.Milliseconds())})
	}
	return append(out, s.neighbourGoals()...)
}

// Missed lists the goals that were not kept.
func (s *Saturation) Missed() []string { return missed(s.Goals()) }

// percent shows a share.
func percent(v float64) string { return fmt.Sprintf("%.0f%%", v*100) }

// percents shows the median of shares and their spread.
func percents(s series) string {
	if len(s) < 2 {
		return percent(s.median())
	}
	return fmt.Sprintf("%s (%s–%s)", percent(s.median()), percent(slices.Min(s)), percent(slices.Max(s)))
}

// Markdown renders the run, headings from the third level down.
func (s *Saturation) Markdown() string {
	var b strings.Builder
	s.markdown(&b)
	goals(&b, s.Goals())
	fmt.Fprintf(&b, "Rounds: %d, windows of %v; medians, in brackets the lowest and highest round. No wrong answer.\n", s.Rounds, s.Window)
	s.table(&b, "Callers in closed loops", "callers", s.Closed)
	s.table(&b, fmt.Sprintf("Open loop, up to %s connections", count(s.Connections)), "times the capacity", s.Open)
	s.table(&b, "A backend of 800 calls/s", "times its rate", s.SlowBackend)
	b.WriteString("\n#### CPU time by outcome\n\n| outcome | CPU µs/call | × result |\n|---|--:|--:|\n")
	result := s.Costs.at(CostResult, 0, cpuMicros)
	for _, name := range []string{CostResult, CostError, CostRejected, CostFloor} {
		own := s.Costs.at(name, 0, cpuMicros)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, own.spread(), own.over(result).spread())
	}
	s.besideTable(&b)
	s.edgeTable(&b)
	s.Catalogs.table(&b)
	return b.String()
}

// table writes the points of all subjects.
func (s *Saturation) table(b *strings.Builder, title, x string, c Curves) {
	fmt.Fprintf(b, "\n#### %s\n\n| subject | %s | answered/s | rejected/s | failed/s | unsent/s | p50 ms | p99 ms |\n|---|--:|--:|--:|--:|--:|--:|--:|\n", title, x)
	for _, name := range []string{OfSidecar, OfOther, OfProxy} {
		for _, at := range c.xs(name) {
			pick := func(get func(LoadPoint) float64) series { return c.at(name, at, get) }
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", name, number(at), pick(goodput).spread(),
				pick(func(p LoadPoint) float64 { return p.Rejected }).middle(), pick(func(p LoadPoint) float64 { return p.Failed }).middle(),
				pick(func(p LoadPoint) float64 { return p.Unsent }).middle(), pick(p50Millis).middle(), pick(p99Millis).spread())
		}
	}
}
