// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// Goals of the latency and of the memory beside it; MB are 10^6 bytes, the stricter reading.
const (
	maxAddedP99 = 1000.0 // microseconds
	maxCrowdRSS = 60_000_000
)

// Latency is one run of the latency benchmark.
type Latency struct {
	Head

	Rate           float64
	Rounds         int
	Warmup, Window time.Duration
	// Arguments are the bytes of JSON of a call.
	Arguments int
	// Subjects in the order of the table; the first is the direct call, the second what the goal is for.
	Subjects []Subject
	// Figures by subject, one for each round. Rate is that of answers.
	Figures map[string][]Timing
	Memory  ServerMemory
}

// Timing is one subject in one round, in microseconds from when calls were due.
type Timing struct{ P50, P90, P99, P999 float64 }

// ServerMemory is what sidecars held, in bytes.
type ServerMemory struct {
	// Idle is after Calls calls and Rest without any, IdleAnon the part of it that is no page of a file.
	Idle, IdleAnon int64
	Calls          int
	Rest           time.Duration
	// Peak is the most that another one ever held with Callers callers at a time, who made CrowdCalls calls; After is
	// what it held when it had rested.
	Peak, After         int64
	Callers, CrowdCalls int
}

func (l *Latency) pick(subject string, of func(Timing) float64) series {
	var out series
	for _, t := range l.Figures[subject] {
		out = append(out, of(t))
	}
	return out
}

// added is by how much a subject is slower than the direct call, round by round.
func (l *Latency) added(subject string, of func(Timing) float64) series {
	base := l.pick(l.Subjects[0].Name, of)
	out := l.pick(subject, of)
	for i := range out {
		out[i] -= base[i]
	}
	return out
}

func p99(t Timing) float64 { return t.P99 }

// Goals compares the figures with what is wanted.
func (l *Latency) Goals() []Goal {
	added := l.added(l.Subjects[1].Name, p99)
	m := &l.Memory
	return []Goal{
		{
			What:   fmt.Sprintf("p99 at %s calls/s over that of the direct call, µs", number(l.Rate)),
			Wanted: "< " + number(maxAddedP99), Figure: added.spread(), Kept: added.median() < maxAddedP99,
		},
		{
			What:   fmt.Sprintf("memory (VmRSS), idle: %v after %d calls", m.Rest, m.Calls),
			Wanted: "< " + megabytes(MaxIdleRSS), Figure: megabytes(m.Idle), Kept: m.Idle < MaxIdleRSS,
		},
		{
			What:   fmt.Sprintf("memory (VmHWM) with %d callers", m.Callers),
			Wanted: "< " + megabytes(maxCrowdRSS), Figure: megabytes(m.Peak), Kept: m.Peak < maxCrowdRSS,
		},
	}
}

// Missed lists the goals that were not kept.
func (l *Latency) Missed() []string { return missed(l.Goals()) }

// Markdown renders the run.
func (l *Latency) Markdown() string {
	var b strings.Builder
	l.markdown(&b)
	goals(&b, l.Goals())
	fmt.Fprintf(&b, "An open loop of %s calls/s of %d bytes of JSON; rounds: %d, windows of %v; medians of rounds, in brackets the least and the most. No wrong answer.\n\n",
		number(l.Rate), l.Arguments, l.Rounds, l.Window)
	b.WriteString("| subject | p50 µs | p90 µs | p99 µs | p99.9 µs | p50 over direct | p99 over direct |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for i, s := range l.Subjects {
		overP50, overP99 := "–", "–"
		if i > 0 {
			overP50 = l.added(s.Name, func(t Timing) float64 { return t.P50 }).spread()
			overP99 = l.added(s.Name, p99).spread()
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", s.Name,
			l.pick(s.Name, func(t Timing) float64 { return t.P50 }).spread(),
			l.pick(s.Name, func(t Timing) float64 { return t.P90 }).spread(),
			l.pick(s.Name, p99).spread(),
			l.pick(s.Name, func(t Timing) float64 { return t.P999 }).spread(), overP50, overP99)
	}
	m := &l.Memory
	fmt.Fprintf(&b, "\nOf the idle sidecar's memory %s are its own (RssAnon). The one with %d callers answered %s calls and held %s after %v of rest.\n",
		megabytes(m.IdleAnon), m.Callers, count(m.CrowdCalls), megabytes(m.After), m.Rest)
	b.WriteString("\nSubjects:\n\n")
	for _, s := range l.Subjects {
		fmt.Fprintf(&b, "- `%s`: %s.\n", s.Name, s.Title)
	}
	return b.String()
}
