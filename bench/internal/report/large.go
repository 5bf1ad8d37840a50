// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
)

// crowdLimit is how much memory a crowd of callers of 3.3 MB may take, in bytes.
const crowdLimit = 300_000_000

// Large is what large calls cost.
type Large struct {
	Head

	Rows                   []LargeRow
	Rounds, Callers, Crowd int
	// CrowdPeak is the most memory that the sidecar held with Crowd callers of 3.3 MB, in bytes.
	CrowdPeak int64
}

// LargeRow is one payload.
type LargeRow struct {
	Name string
	// Base is the row whose cost of a byte this one's is compared with; "" where it is compared with the proxy.
	Base string
	// AtMost is the goal of that ratio, 0 for none.
	AtMost    float64
	Arguments int
	// CPU and Proxy are microseconds a call, one for each round.
	CPU, Proxy []float64
}

// perByte is the median CPU time of a byte of the arguments, in nanoseconds.
func (r *LargeRow) perByte() float64 { return middle(r.CPU) * 1e3 / float64(r.Arguments) }

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// ratio is what a row is judged by, and what it is.
func (l *Large) ratio(r *LargeRow) (float64, string) {
	if r.Base == "" {
		return middle(r.CPU) / middle(r.Proxy), "times the empty proxy"
	}
	for i := range l.Rows {
		if base := &l.Rows[i]; base.Name == r.Base {
			return r.perByte() / base.perByte(), "times a byte of " + base.Name
		}
	}
	return 0, ""
}

// Missed lists the goals that were missed.
func (l *Large) Missed() []string {
	var out []string
	for i := range l.Rows {
		r := &l.Rows[i]
		if ratio, what := l.ratio(r); r.AtMost > 0 && ratio > r.AtMost {
			out = append(out, fmt.Sprintf("%s: %.2f %s, want %.1f", r.Name, ratio, what, r.AtMost))
		}
	}
	if l.CrowdPeak > crowdLimit {
		out = append(out, fmt.Sprintf("%d callers of 3.3 MB: %.0f MB, want %d", l.Crowd, float64(l.CrowdPeak)/1e6, crowdLimit/1_000_000))
	}
	return out
}

// Markdown is the figures as a table.
func (l *Large) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d callers on `/mcp`, the median of %d rounds; CPU time of the sidecar's process.\n\n", l.Callers, l.Rounds)
	b.WriteString("| arguments | bytes | CPU a call | CPU a byte | ratio | goal |\n|---|---|---|---|---|---|\n")
	for i := range l.Rows {
		r := &l.Rows[i]
		ratio, what := l.ratio(r)
		goal := "none"
		if r.AtMost > 0 {
			goal = fmt.Sprintf("%.1f", r.AtMost)
		}
		fmt.Fprintf(&b, "| %s | %d | %.0f us | %.2f ns | %.2f %s | %s |\n", r.Name, r.Arguments, middle(r.CPU), r.perByte(), ratio, what, goal)
	}
	if l.Crowd > 0 {
		fmt.Fprintf(&b, "\n%d callers of 3.3 MB at the same time: %.0f MB of memory at most (goal: %d).\n", l.Crowd, float64(l.CrowdPeak)/1e6, crowdLimit/1_000_000)
	}
	return b.String()
}
