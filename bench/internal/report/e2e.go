// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Head says when, of what and on what a run was made.
type Head struct {
	Date                                time.Time
	Machine, Command, Commit, BuiltWith string
	Took                                time.Duration
}

func (h *Head) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "Measured on %s, revision %s, sidecar built with %s.\n", h.Date.UTC().Format("2006-01-02 15:04 UTC"), h.Commit, h.BuiltWith)
	fmt.Fprintf(b, "Machine: %s.\nCommand: `%s` (%s).\n\n", h.Machine, h.Command, h.Took.Round(time.Second))
}

// Kind is what a subject of the end-to-end benchmark is there for.
type Kind int

// Kinds of subjects.
const (
	// Direct has nothing between caller and backend.
	Direct Kind = iota
	// Floor is the empty proxy.
	Floor
	// Measured is the sidecar on the path that the goals are for.
	Measured
	// HandWritten is a server that somebody wrote by hand.
	HandWritten
	// Beside is shown and takes no part in any goal.
	Beside
)

// EndToEnd is one run of the end-to-end benchmark.
type EndToEnd struct {
	Head

	Rounds, Callers int
	Window, Longest time.Duration
	AtLeast         int
	Subjects        []Subject
	Sizes           []Size
	Digits          []Digits
}

// Subject is a row of the tables.
type Subject struct {
	Name, Title string
	Kind        Kind
	// Above is how many µs of CPU time a small call may take more than through the sidecar, zero where there is no limit.
	Above float64
}

// Size is a payload and what was measured with it.
type Size struct {
	Name string
	// Arguments are the bytes of JSON.
	Arguments int
	// AtMost is how many times the floor's CPU the sidecar may need, LessBy how many times less than the best
	// hand-written server it has to need.
	AtMost, LessBy float64
	// Figures by subject, one for each round.
	Figures map[string][]Figure
	// Peak is the most memory that a subject's process held, in bytes.
	Peak map[string]int64
	// Crowd is what many callers did to its own sidecar; nil where it was not measured.
	Crowd *Crowd
}

// Crowd is one sidecar with many callers.
type Crowd struct {
	Callers, Calls int
	RSS, Peak      int64
	// Limit is what Peak has to stay under, zero where there is none.
	Limit int64
	// Failure is the first error or wrong answer, "" where there was none.
	Failure string
}

// Digits tells what a subject made of numbers that a double cannot hold.
type Digits struct {
	Subject string
	// ID is what came back as the request's id, Number and Text what came back of an int64 argument that was sent as a
	// JSON number and as a string.
	ID, Number, Text string
}

// Goal is one thing that has to hold.
type Goal struct {
	What, Wanted, Figure string
	Kept                 bool
}

// Goals compares the figures with what is wanted.
func (e *EndToEnd) Goals() []Goal {
	var out []Goal
	floor, measured := e.one(Floor), e.one(Measured)
	for i := range e.Sizes {
		s := &e.Sizes[i]
		own := s.cpu(measured)
		if base := s.cpu(floor); len(own) > 0 && len(base) > 0 {
			ratio := own.over(base)
			out = append(out, Goal{
				What:   fmt.Sprintf("%s: CPU per call, times that of the empty proxy", s.Name),
				Wanted: "≤ " + number(s.AtMost), Figure: ratio.spread(), Kept: ratio.median() <= s.AtMost,
			})
		}
		if best := e.best(s); len(own) > 0 && best != "" {
			ratio := s.cpu(best).over(own)
			out = append(out, Goal{
				What:   fmt.Sprintf("%s: CPU per call, times less than the best hand-written server (`%s`)", s.Name, best),
				Wanted: "≥ " + number(s.LessBy), Figure: ratio.spread(), Kept: ratio.median() >= s.LessBy,
			})
		}
	}
	out = append(out, e.additions()...)
	for i := range e.Sizes {
		if c := e.Sizes[i].Crowd; c != nil {
			out = append(out, c.goals(e.Sizes[i].Name)...)
		}
	}
	for _, d := range e.Digits {
		if d.Subject == measured {
			out = append(out, Goal{What: "2^53+1 as an id and as an int64 argument", Wanted: "exact", Figure: d.words(), Kept: d.exact()})
		}
	}
	return out
}

func (c *Crowd) goals(size string) []Goal {
	figure := count(c.Calls) + " calls"
	if c.Failure != "" {
		figure = oneLine(c.Failure)
	}
	out := []Goal{{What: fmt.Sprintf("%s: %d callers, errors and answers of others", size, c.Callers), Wanted: "none", Figure: figure, Kept: c.Failure == ""}}
	if c.Limit > 0 && c.Failure == "" {
		out = append(out, Goal{
			What: fmt.Sprintf("%s: memory (VmHWM) with %d callers", size, c.Callers), Wanted: "< " + megabytes(c.Limit),
			Figure: megabytes(c.Peak), Kept: c.Peak < c.Limit,
		})
	}
	return out
}

// Missed lists the goals that were not kept.
func (e *EndToEnd) Missed() []string { return missed(e.Goals()) }

func missed(goals []Goal) []string {
	var out []string
	for _, g := range goals {
		if !g.Kept {
			out = append(out, g.What)
		}
	}
	return out
}

func (d *Digits) exact() bool { return d.ID == Exact && d.Number == Exact && d.Text == Exact }

func (d *Digits) words() string {
	if d.exact() {
		return "exact"
	}
	return fmt.Sprintf("id %s, number %s, text %s", d.ID, d.Number, d.Text)
}

// Exact is how a number is described that came back as it was sent.
const Exact = "exact"

// one is the name of the subject of a kind, "" where there is none.
func (e *EndToEnd) one(kind Kind) string {
	for _, s := range e.Subjects {
		if s.Kind == kind {
			return s.Name
		}
	}
	return ""
}

// best is the hand-written server that needs the least CPU at a size, by the median of its rounds.
func (e *EndToEnd) best(s *Size) string {
	name, least := "", math.Inf(1)
	for _, subject := range e.Subjects {
		if cpu := s.cpu(subject.Name); subject.Kind == HandWritten && len(cpu) > 0 && cpu.median() < least {
			name, least = subject.Name, cpu.median()
		}
	}
	return name
}

func (s *Size) pick(subject string, get func(Figure) float64) series {
	var out series
	for _, f := range s.Figures[subject] {
		out = append(out, get(f))
	}
	return out
}

func (s *Size) cpu(subject string) series {
	return s.pick(subject, func(f Figure) float64 { return f.MiddleCPU })
}

// Markdown renders the run, headings from the third level down.
func (e *EndToEnd) Markdown() string {
	var b strings.Builder
	e.markdown(&b)
	goals(&b, e.Goals())
	fmt.Fprintf(&b, "%d callers; rounds: %d, windows of %v, longer until %d calls were answered, but no call begins after %v; medians, in brackets the least and the most of a round. No wrong answer.\n",
		e.Callers, e.Rounds, e.Window, e.AtLeast, e.Longest)
	for i := range e.Sizes {
		e.table(&b, &e.Sizes[i])
	}
	if len(e.Digits) > 0 {
		b.WriteString("\n#### Digits\n\nWhat came back of 9007199254740993 (2^53+1), which a double cannot hold.\n\n")
		b.WriteString("| subject | as the id | as an int64 argument, a JSON number | as an int64 argument, a string |\n|---|---|---|---|\n")
		for _, d := range e.Digits {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Subject, oneLine(d.ID), oneLine(d.Number), oneLine(d.Text))
		}
	}
	b.WriteString("\nSubjects:\n\n")
	for _, s := range e.Subjects {
		fmt.Fprintf(&b, "- `%s`: %s.\n", s.Name, s.Title)
	}
	return b.String()
}

// goals writes the goals as a table.
func goals(b *strings.Builder, all []Goal) {
	b.WriteString("| what | wanted | figure | |\n|---|---|---|---|\n")
	for _, g := range all {
		verdict := "kept"
		if !g.Kept {
			verdict = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", g.What, g.Wanted, g.Figure, verdict)
	}
	b.WriteString("\n")
}

func (e *EndToEnd) table(b *strings.Builder, s *Size) {
	floor, measured := e.one(Floor), e.one(Measured)
	fmt.Fprintf(b, "\n#### %s, %d bytes of JSON\n\n", strings.ToUpper(s.Name[:1])+s.Name[1:], s.Arguments)
	b.WriteString("| subject | CPU µs/call | × proxy | × sidecar | calls/s | p50 µs | p99 µs | memory, peak | backend µs/call | generator µs/call |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	ratio := func(subject, base string) string {
		of := s.cpu(base)
		if subject == base || len(of) == 0 || slices.Contains(s.cpu(subject), 0) {
			return "–"
		}
		return s.cpu(subject).over(of).spread()
	}
	for _, subject := range e.Subjects {
		if len(s.Figures[subject.Name]) == 0 {
			continue
		}
		get := func(of func(Figure) float64) series { return s.pick(subject.Name, of) }
		cpu, peak := "–", "–"
		if subject.Kind != Direct {
			cpu, peak = s.cpu(subject.Name).spread(), megabytes(s.Peak[subject.Name])
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", subject.Name,
			cpu, ratio(subject.Name, floor), ratio(subject.Name, measured),
			get(func(f Figure) float64 { return f.Rate }).spread(),
			get(func(f Figure) float64 { return f.P50 }).middle(), get(func(f Figure) float64 { return f.P99 }).middle(), peak,
			get(func(f Figure) float64 { return f.BackendCPU }).middle(), get(func(f Figure) float64 { return f.CallersCPU }).middle())
	}
	if c := s.Crowd; c != nil && c.Failure == "" {
		fmt.Fprintf(b, "\nWith %d callers a separate sidecar answered %s calls and held %s at the end, %s at most.\n", c.Callers, count(c.Calls), megabytes(c.RSS), megabytes(c.Peak))
	}
}
