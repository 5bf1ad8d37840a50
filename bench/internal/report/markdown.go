// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names of the paths that others are compared with.
const (
	direct = "direct"
	proxy  = "proxy"
)

// Markdown renders the report, headings from the third level down.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, revision %s, sidecar built with %s.\n", r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Commit, r.BuiltWith)
	fmt.Fprintf(&b, "Machine: %s.\nCommand: `%s` (%s).\n\n", r.Machine, r.Command, r.Took.Round(time.Second))
	r.Footprint.markdown(&b)
	targets(&b, r.Contract)
	if r.Load != nil {
		r.Load.markdown(&b)
	}
	return b.String()
}

// targets writes the figures that the contract has targets for.
func targets(b *strings.Builder, rows []Target) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("### Targets of the contract\n\n| what | target | figure | times better | wanted | |\n|---|---|---|--:|--:|---|\n")
	for _, row := range rows {
		verdict := "kept"
		if row.Times < row.Goal {
			verdict = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %.1f | %.0f | %s |\n", row.What, row.Target, row.Figure, row.Times, row.Goal, verdict)
	}
	b.WriteString("\n")
}

func (f *Footprint) markdown(b *strings.Builder) {
	misses := f.Misses()
	verdict := func(what string) string {
		if slices.Contains(misses, what) {
			return "**missed**"
		}
		return "kept"
	}
	b.WriteString("### Footprint\n\n| what | figure | limit | |\n|---|---|---|---|\n")
	fmt.Fprintf(b, "| stripped binary | %s | %s | %s |\n", megabytes(f.Binary), megabytes(MaxBinary), verdict("binary"))
	fmt.Fprintf(b, "| start to the first 200 of `/readyz`, `--demo`, median of %d | %s | %d ms | %s |\n",
		len(f.Ready), times(f.Ready), MaxStartup.Milliseconds(), verdict("startup"))
	fmt.Fprintf(b, "| start to the log line `ready`, the same starts | %s | | |\n", times(f.Logged))
	fmt.Fprintf(b, "| idle memory (VmRSS), `--demo`, after %d calls and %v | %s | %s | %s |\n",
		f.Calls, f.Idle, megabytes(f.IdleRSS), megabytes(MaxIdleRSS), verdict("idle memory"))
	fmt.Fprintf(b, "| its own part (RssAnon); the rest are pages of the executable | %s | | |\n", megabytes(f.IdleAnon))
	fmt.Fprintf(b, "| VmRSS of the same process before its first call | %s | | |\n", megabytes(f.FreshRSS))
	fmt.Fprintf(b, "| VmRSS of the same process two seconds after the calls | %s | | |\n\n", megabytes(f.WarmRSS))
}

func (l *Load) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "### Calls, %s payload\n\n", l.Size)
	fmt.Fprintf(b, "Arguments of %d bytes of JSON. Rounds: %d, windows of %v; medians, in brackets the least and the most of a round. No wrong answer.\n",
		l.Arguments, l.Rounds, l.Window)
	if l.Peak > 0 {
		fmt.Fprintf(b, "The sidecar's memory after the last round: %s, at most %s.\n", megabytes(l.RSS), megabytes(l.Peak))
	}
	for _, callers := range l.Callers {
		noun := "callers"
		if callers == 1 {
			noun = "caller"
		}
		fmt.Fprintf(b, "\n#### %d %s\n\n", callers, noun)
		b.WriteString("| path | calls/s | × direct | CPU µs/call | × proxy | p50 µs | p99 µs | backend µs/call | generator µs/call |\n")
		b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
		for _, p := range l.Paths {
			l.row(b, p.Name, callers)
		}
	}
	b.WriteString("\nPaths:\n\n")
	for _, p := range l.Paths {
		fmt.Fprintf(b, "- `%s`: %s.\n", p.Name, p.Title)
	}
	for _, s := range l.Skipped {
		fmt.Fprintf(b, "- `%s` was **not measured**: %s\n", s.Path, oneLine(s.Reason))
	}
}

func (l *Load) row(b *strings.Builder, path string, callers int) {
	get := func(path string, of func(Figure) float64) series { return l.pick(path, callers, of) }
	rate := func(f Figure) float64 { return f.Rate }
	cpu := func(f Figure) float64 { return f.MiddleCPU }
	ofDirect, middle, ofProxy := "–", "–", "–"
	if path != direct {
		ofDirect = get(path, rate).over(get(direct, rate)).spread()
		middle = get(path, cpu).spread()
		if path != proxy {
			ofProxy = get(path, cpu).over(get(proxy, cpu)).spread()
		}
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", path,
		get(path, rate).spread(), ofDirect, middle, ofProxy,
		get(path, func(f Figure) float64 { return f.P50 }).spread(),
		get(path, func(f Figure) float64 { return f.P99 }).spread(),
		get(path, func(f Figure) float64 { return f.BackendCPU }).middle(),
		get(path, func(f Figure) float64 { return f.CallersCPU }).middle())
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func times(all []time.Duration) string {
	var ms series
	for _, t := range all {
		ms = append(ms, float64(t.Microseconds())/1e3)
	}
	if len(ms) == 0 {
		return "not seen"
	}
	return ms.spread() + " ms"
}

// oneLine keeps the first line of a reason that may hold a log.
func oneLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.ReplaceAll(line, "|", "\\|")
}
