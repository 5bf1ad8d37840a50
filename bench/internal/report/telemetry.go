// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
)

// Telemetry is one run of the benchmark of what telemetry costs.
type Telemetry struct {
	EndToEnd

	// IdleRSS is what a sidecar with exporters holds when it has been idle, IdleLimit what it has to stay under.
	IdleRSS, IdleLimit int64
	// Before is the name of the subject that is a build without telemetry, "" where there is none.
	Before string
}

// smallCalls is the payload that limits in µs are for.
const smallCalls = "small"

// additions are goals about what a subject costs more than the sidecar.
func (e *EndToEnd) additions() (out []Goal) {
	measured := e.one(Measured)
	for i := range e.Sizes {
		s := &e.Sizes[i]
		for _, subject := range e.Subjects {
			difference := s.cpu(subject.Name).minus(s.cpu(measured))
			if subject.Above == 0 || s.Name != smallCalls || len(difference) == 0 {
				continue
			}
			out = append(out, Goal{
				What:   fmt.Sprintf("%s: CPU per call of `%s` above that of `%s`, µs", s.Name, subject.Name, measured),
				Wanted: "≤ " + number(subject.Above), Figure: difference.spread(), Kept: difference.median() <= subject.Above,
			})
		}
	}
	return out
}

// Goals adds memory and the build without telemetry to those of the calls.
func (t *Telemetry) Goals() []Goal {
	out := t.additions()
	for i := range t.Sizes {
		s := &t.Sizes[i]
		difference := s.cpu(t.one(Measured)).minus(s.cpu(t.Before))
		if t.Before == "" || len(difference) == 0 {
			continue
		}
		out = append(out, Goal{
			What:   fmt.Sprintf("%s: CPU per call without telemetry above that of the build before it (`%s`), µs", s.Name, t.Before),
			Wanted: "not more in every round", Figure: difference.spread(), Kept: slices.Min(difference) <= 0,
		})
	}
	if t.IdleRSS > 0 {
		out = append(out, Goal{
			What: "memory (RSS) of an idle sidecar with exporters for traces and metrics", Wanted: "< " + megabytes(t.IdleLimit),
			Figure: megabytes(t.IdleRSS), Kept: t.IdleRSS < t.IdleLimit,
		})
	}
	return out
}

// Missed lists the goals that were not kept.
func (t *Telemetry) Missed() []string { return missed(t.Goals()) }

// Markdown renders the run.
func (t *Telemetry) Markdown() string {
	var b strings.Builder
	t.markdown(&b)
	goals(&b, t.Goals())
	fmt.Fprintf(&b, "%d callers; rounds: %d, windows of %v; differences round by round, medians, in brackets the least and the most. No wrong answer.\n",
		t.Callers, t.Rounds, t.Window)
	for i := range t.Sizes {
		t.table(&b, &t.Sizes[i])
	}
	b.WriteString("\nSubjects:\n\n")
	for _, s := range t.Subjects {
		fmt.Fprintf(&b, "- `%s`: %s.\n", s.Name, s.Title)
	}
	return b.String()
}
