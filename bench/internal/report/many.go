// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// besideGoal is how much more a sound backend may take beside odd ones than beside sound ones.
const besideGoal = 1.25

// Many is what backends take from each other.
type Many struct {
	Head

	Backends, Odd, Callers, Rounds, Hanging int
	// One is a sidecar with one backend, Sound one with all of them sound, Beside one with the odd ones among them; one figure for each round.
	One, Sound, Beside []ManyFigure
}

// ManyFigure is what a call to a sound backend takes, and a list of all tools, in microseconds, the bytes in use after a collection,
// and how many tools the sound backends have.
type ManyFigure struct {
	P50, P99, CPU, List float64
	InUse               int64
	Tools               int
}

// manyRow is a row of the table.
type manyRow struct {
	what string
	get  func(ManyFigure) float64
	// most is the goal of beside over sound, 0 for none.
	most float64
}

func manyRows() []manyRow {
	return []manyRow{
		{"a call, p50 µs", func(f ManyFigure) float64 { return f.P50 }, besideGoal},
		{"the same, p99 µs", func(f ManyFigure) float64 { return f.P99 }, 0},
		{"the same, CPU µs of the sidecar", func(f ManyFigure) float64 { return f.CPU }, besideGoal},
		{"a list of all tools, µs", func(f ManyFigure) float64 { return f.List }, 0},
		{"memory in use, MB", func(f ManyFigure) float64 { return float64(f.InUse) / 1e6 }, besideGoal},
		{"tools of the backends that are called", func(f ManyFigure) float64 { return float64(f.Tools) }, 0},
	}
}

func (r *manyRow) of(figures []ManyFigure) series {
	var out series
	for _, f := range figures {
		out = append(out, r.get(f))
	}
	return out
}

// Missed lists the goals that were missed.
func (m *Many) Missed() []string {
	var out []string
	for _, r := range manyRows() {
		if ratio := r.of(m.Beside).over(r.of(m.Sound)); r.most > 0 && ratio.median() > r.most {
			out = append(out, fmt.Sprintf("%s: %s times that beside sound ones, want %.2f", r.what, ratio.spread(), r.most))
		}
	}
	return out
}

// Markdown is the figures as a table.
func (m *Many) Markdown() string {
	var b strings.Builder
	m.markdown(&b)
	fmt.Fprintf(&b, "%d callers on `/rpc`, one backend after the other; small calls; the median of %d rounds and, in brackets, the least and the most. "+
		"%d of %d backends are odd: one dead, one slow with %d calls, one that changes each second, and one that refuses. With %d sound backends the same %d are called.\n\n",
		m.Callers, m.Rounds, m.Odd, m.Backends, m.Hanging, m.Backends, m.Backends-m.Odd)
	fmt.Fprintf(&b, "| | one backend | %d sound ones | times one | %d beside %d odd ones | times %d sound ones | goal |\n|---|--:|--:|--:|--:|--:|--:|\n",
		m.Backends, m.Backends-m.Odd, m.Odd, m.Backends)
	for _, r := range manyRows() {
		one, sound, beside, goal := r.of(m.One), r.of(m.Sound), r.of(m.Beside), "–"
		if r.most > 0 {
			goal = fmt.Sprintf("%.2f", r.most)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.what, one.middle(), sound.middle(), sound.over(one).middle(), beside.middle(), beside.over(sound).spread(), goal)
	}
	return b.String()
}
