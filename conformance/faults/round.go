// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// busy bounds the wait until all callers are at work.
const busy = 20 * time.Second

// calm is how long callers go on working after a fault.
const calm = 300 * time.Millisecond

// Result is what came of one fault.
type Result struct {
	Scheme, Fault string
	Seed          uint64
	// Calls there were, Left of which lost their caller, OK that succeeded, and
	// Codes of the others.
	Calls, Left, OK int
	Codes           map[string]int
	// Executions are those of the backend, Again how many of them repeated one.
	Executions, Again int
	// Recovered is the time from the end of the fault until every edge worked, or
	// from its beginning where it heals by itself.
	Recovered time.Duration
	// Goroutines are those of the sidecar that serves, before and after.
	Before, After int
	Findings      []Finding
}

// Round lets one fault happen among callers at work, waits until everything works
// again and the sidecar is at rest, and accounts for every call. Findings are in
// the result; what else is wrong fails the test.
func (r *Rig) Round(f Fault) Result {
	r.tb.Helper()
	r.rounds++
	book, begun := &Book{}, len(r.Backend.Executions())
	lines := r.dial()
	strays := r.strays(lines)
	work := startLoad(r.tb.Context(), book, &r.serial, lines, r.opts.Workers, r.opts.Seed+r.rounds<<32, r.limit())
	for limit := time.Now().Add(busy); len(r.Backend.Executions()) < begun+2*r.opts.Workers*len(lines); {
		if time.Now().After(limit) {
			r.tb.Fatalf("%s: the callers are not at work after %s", f.Name, busy)
		}
		time.Sleep(10 * time.Millisecond)
	}
	d := Disturbance{From: time.Now(), Codes: f.Codes}
	f.Break(r)
	time.Sleep(f.Hold)
	mended := d.From
	var works time.Time
	if f.Heals {
		works = r.recover(lines, book, healing)
		f.Mend(r)
		d.To = works
		r.recover(lines, book, recovery)
	} else {
		f.Mend(r)
		mended = time.Now()
		works = r.recover(lines, book, recovery)
		r.Await("every call of the fault's time has ended", func() bool { return !work.flyingSince(mended) })
		d.To = r.recover(lines, book, recovery)
	}
	time.Sleep(calm)
	work.stop()
	late := r.strays(lines)[len(strays):]
	r.hangUp(lines)

	result := Result{Scheme: r.opts.Scheme, Fault: f.Name, Seed: r.opts.Seed, Recovered: works.Sub(mended), Before: r.watched[0].base, Codes: map[string]int{}}
	for i, w := range r.watched {
		n := w.settled(r.tb, r.most(w))
		if i == 0 {
			result.After = n
		}
	}
	entries, executions := book.Entries(), r.Backend.Executions()[begun:]
	result.Findings = Audit(entries, executions, late, d, r.Bounds())
	result.count(entries, executions)
	r.struck(f, d, entries, result)
	return result
}

// strays returns the unexpected answers, of all lines.
func (*Rig) strays(lines []line) []string {
	var all []string
	for _, l := range lines {
		if s, ok := l.agent.(caller.Strayer); ok {
			all = append(all, s.Strays()...)
		}
	}
	return all
}

// struck fails the test where a fault left no trace: then it proves nothing.
func (r *Rig) struck(f Fault, d Disturbance, entries []Entry, result Result) {
	r.tb.Helper()
	if f.Shows != "" && result.Codes[f.Shows] == 0 {
		r.tb.Errorf("%s: no call ended with %s: %v", f.Name, f.Shows, result.Codes)
	}
	var slowest time.Duration
	for _, e := range entries {
		if d.hits(e) {
			slowest = max(slowest, e.Took())
		}
	}
	if slowest < f.Slows {
		r.tb.Errorf("%s: no call took %s longer than asked; the slowest %s", f.Name, f.Slows, slowest)
	}
}

func (s *Result) count(entries []Entry, executions []Execution) {
	s.Calls, s.Executions = len(entries), len(executions)
	for _, e := range entries {
		switch answers := e.answered(); {
		case e.Left():
			s.Left++
		case len(answers) == 0:
			s.Codes["none"]++
		case answers[0].Fault == nil:
			s.OK++
		default:
			s.Codes[answers[0].Fault.Code]++
		}
	}
	seen := map[string]bool{}
	for _, x := range executions {
		if seen[x.Nonce] {
			s.Again++
		}
		seen[x.Nonce] = true
	}
}

// Table writes results for people.
func Table(results []Result) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "backend\tfault\tseed\tcalls\tleft\tOK\tUNAVAILABLE\tTRANSPORT_ERROR\tTIMEOUT\texecutions\trepeated\trecovered\tgoroutines\tfindings")
	for _, s := range results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d to %d\t%d\n", s.Scheme, s.Fault, s.Seed, s.Calls, s.Left, s.OK,
			s.Codes[Unavailable], s.Codes[TransportError], s.Codes[Timeout], s.Executions, s.Again,
			s.Recovered.Round(time.Millisecond), s.Before, s.After, len(s.Findings))
	}
	_ = w.Flush()
	return out.String()
}
