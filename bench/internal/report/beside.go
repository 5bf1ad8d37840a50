// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// OfApart is the subject of two sidecars, one for the measured calls and one for the others. BesideStaggered is the row of a slow
// tool whose callers do not call at the same time.
const (
	OfApart         = "two sidecars"
	BesideStaggered = "beside the slow tool, staggered"
)

// Of names the row of a process in the middle; those of the sidecar have no prefix.
func Of(subject, row string) string {
	if subject == OfSidecar {
		return row
	}
	return subject + ", " + row
}

// floors are the figures of a row that stand beside the sidecar's.
func floors(get func(subject string) series) string {
	var text strings.Builder
	for _, floor := range []struct{ name, subject string }{{"proxy", OfProxy}, {"two sidecars", OfApart}} {
		if s := get(floor.subject); len(s) > 0 {
			text.WriteString("; " + floor.name + " " + s.middle())
		}
	}
	return text.String()
}

// slower is by how many times the p99 of a row is above that of the same subject alone.
func (s *Saturation) slower(subject, row string, x float64) series {
	return s.SlowTool.at(Of(subject, row), x, p99Millis).over(s.SlowTool.at(Of(subject, Alone), x, p99Millis))
}

func (s *Saturation) slowToolGoals() []Goal {
	var out []Goal
	for _, x := range s.SlowTool.xs(Alone) {
		for _, row := range []struct{ name, when string }{{BesideSlow, ""}, {BesideStaggered, ", staggered"}} {
			tail := s.slower(OfSidecar, row.name, x)
			if len(tail) == 0 {
				continue
			}
			share := s.SlowTool.at(row.name, x, goodput).over(s.SlowTool.at(Alone, x, goodput))
			out = append(out,
				Goal{
					What:   fmt.Sprintf("a fast tool beside %s callers of a slow one%s: goodput of that alone", count(s.Crowd), row.when),
					Wanted: "100%", Figure: percents(share), Kept: share.median() >= allAnswered,
				},
				Goal{
					What: "the same: p99 of that alone", Wanted: "<= " + number(besideSlow) + " times", Kept: tail.median() <= besideSlow,
					Figure: tail.spread() + " times" + floors(func(subject string) series { return s.slower(subject, row.name, x) }),
				})
		}
	}
	return out
}

func (s *Saturation) neighbourGoals() []Goal {
	var out []Goal
	for _, name := range []string{ManySmall, FewLarge} {
		for _, x := range s.Neighbours.xs(name) {
			tail := s.Neighbours.at(name, x, p99Millis)
			out = append(out, Goal{
				What: "a quiet caller " + name + ": p99", Wanted: "<= " + quietP99.String(), Kept: tail.median() <= float64(quietP99.Milliseconds()),
				Figure: tail.spread() + " ms; alone " + s.Neighbours.at(Alone, x, p99Millis).spread() +
					floors(func(subject string) series { return s.Neighbours.at(Of(subject, name), x, p99Millis) }),
			})
		}
	}
	return out
}

// besideTable writes the latencies of small calls beside others, by process in the middle.
func (s *Saturation) besideTable(b *strings.Builder) {
	b.WriteString("\n#### Small calls beside others\n\n| subject | calls | answered/s | p50 ms | p99 ms |\n|---|---|--:|--:|--:|\n")
	for _, part := range []struct {
		of   string
		c    Curves
		rows []string
	}{
		{"fast tool", s.SlowTool, []string{Alone, BesideSlow, BesideStaggered}}, {"quiet caller", s.Neighbours, []string{Alone, ManySmall, FewLarge}},
	} {
		for _, subject := range []string{OfSidecar, OfOther, OfProxy, OfApart} {
			for _, row := range part.rows {
				name := Of(subject, row)
				for _, x := range part.c.xs(name) {
					fmt.Fprintf(b, "| `%s` | %s, %s | %s | %s | %s |\n", subject, part.of, row,
						part.c.at(name, x, goodput).middle(), part.c.at(name, x, p50Millis).middle(), part.c.at(name, x, p99Millis).spread())
				}
			}
		}
	}
}
