// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	// maxGrowth is by how much memory and goroutines may grow, a share.
	maxGrowth = 0.05
	// inFlight is by how many goroutines the median may grow all the same: calls in flight vary, and are few.
	inFlight = 2
	// settling is the share of a soak in which they may: caches and pools fill, the collector finds its pace.
	settling = 0.2
	// enoughLooks is how many looks a trend needs, three in each of its thirds.
	enoughLooks = 9
	// mostRows is how many looks a table shows.
	mostRows = 24
)

// Soak is one long run at a share of the capacity.
type Soak struct {
	Head

	Duration, Every time.Duration
	// Callers is how many could call at a time; Edges are the paths they took in turn; Arguments the bytes of JSON.
	Callers   int
	Edges     []string
	Arguments int
	// Capacity is how many calls/s the sidecar answered at the most, Rate the Share of it that it was kept busy with.
	Capacity, Rate, Share float64
	// Calls were answered, at CPU microseconds each; P50 and P99 are from when they were due.
	Calls         int
	CPU, P50, P99 float64
	// Before and After are looks at an idle sidecar; Looks those in between.
	Before, After Look
	Looks         []Look
	// Failure is the first error or wrong answer, "" where there was none.
	Failure string
}

// Look is what a sidecar was seen to hold, bytes, and to do.
type Look struct {
	At              time.Duration
	RSS, Anon, Heap int64
	Goroutines      int
	Rate            float64
}

// ends are the medians of the first and of the last third of a series, after it has settled: single looks fall before or
// after a collection and say nothing. They are NaN where there are too few.
func (s series) ends() (first, last float64) {
	settled := s[int(float64(len(s))*settling):]
	third := len(settled) / 3
	if third*3 < enoughLooks {
		return math.NaN(), math.NaN()
	}
	return settled[:third].median(), settled[len(settled)-third:].median()
}

func (s *Soak) pick(of func(Look) float64) series {
	var out series
	for _, look := range s.Looks {
		out = append(out, of(look))
	}
	return out
}

// Goals compares what was seen with what is wanted.
func (s *Soak) Goals() []Goal {
	figure := "none of " + count(s.Calls)
	if s.Failure != "" {
		figure = oneLine(s.Failure)
	}
	out := []Goal{{What: "errors and wrong answers", Wanted: "none", Figure: figure, Kept: s.Failure == ""}}
	wanted := fmt.Sprintf("≤ %.0f %%", 100*maxGrowth)
	first, last := s.pick(func(l Look) float64 { return float64(l.RSS) }).ends()
	out = append(out, Goal{
		What: "growth of memory (VmRSS)", Wanted: wanted, Figure: change(first, last, megabytesOf), Kept: last <= first*(1+maxGrowth),
	})
	first, last = s.pick(func(l Look) float64 { return float64(l.Goroutines) }).ends()
	out = append(out, Goal{
		What: "growth of goroutines", Wanted: fmt.Sprintf("%s or %d", wanted, inFlight), Figure: change(first, last, number),
		Kept: last <= max(first*(1+maxGrowth), first+inFlight),
	}, Goal{
		What: "goroutines when idle again", Wanted: fmt.Sprintf("≤ %d, as before", s.Before.Goroutines),
		Figure: fmt.Sprint(s.After.Goroutines), Kept: s.After.Goroutines <= s.Before.Goroutines,
	})
	return out
}

// change shows two medians and by how much the second is more.
func change(first, last float64, show func(float64) string) string {
	if math.IsNaN(first) || math.IsNaN(last) {
		return "too few looks"
	}
	return fmt.Sprintf("%+.1f %% (%s to %s)", 100*(last/first-1), show(first), show(last))
}

func megabytesOf(bytes float64) string { return megabytes(int64(bytes)) }

// Missed lists the goals that were not kept.
func (s *Soak) Missed() []string { return missed(s.Goals()) }

// Markdown renders the run.
func (s *Soak) Markdown() string {
	var b strings.Builder
	s.markdown(&b)
	goals(&b, s.Goals())
	fmt.Fprintf(&b, "%v at %s calls/s of %d bytes of JSON, %.0f %% of the %s calls/s that were the most, in equal parts on `%s`; at most %d in flight.\n",
		s.Duration, number(s.Rate), s.Arguments, 100*s.Share, number(s.Capacity), strings.Join(s.Edges, "`, `"), s.Callers)
	fmt.Fprintf(&b, "CPU %s µs/call; p50 %s µs, p99 %s µs from when a call was due. Growth compares the median of the last third of all looks with that of the first third, after a fifth of the time to settle.\n\n",
		number(s.CPU), number(s.P50), number(s.P99))
	b.WriteString("| after | calls/s | memory | its own part | heap in use | goroutines |\n|---|--:|--:|--:|--:|--:|\n")
	row := func(name, rate string, l Look) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d |\n", name, rate, megabytes(l.RSS), megabytes(l.Anon), megabytes(l.Heap), l.Goroutines)
	}
	row("before, idle", "–", s.Before)
	step := max((len(s.Looks)+mostRows-1)/mostRows, 1)
	for i := 0; i < len(s.Looks); i += step {
		row(s.Looks[i].At.Round(time.Second).String(), number(s.Looks[i].Rate), s.Looks[i])
	}
	row("idle again", "–", s.After)
	return b.String()
}
