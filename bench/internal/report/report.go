// SPDX-License-Identifier: Apache-2.0

// Package report turns figures into Markdown and puts that into a document. It measures nothing.
package report

import (
	"time"
)

// Limits that the sidecar has to keep. MB are 10^6 bytes, the stricter reading.
const (
	MaxBinary  = 30_000_000
	MaxStartup = 300 * time.Millisecond
	MaxIdleRSS = 30_000_000
)

// Report is one run of the benchmark.
type Report struct {
	Date                                time.Time
	Machine, Command, Commit, BuiltWith string
	Took                                time.Duration
	Footprint                           Footprint
	Contract                            []Target
	Load                                *Load // nil where only the footprint was measured
}

// Target is a figure beside what the canonical contract asks for.
type Target struct {
	What, Target, Figure string
	// Times is how many times better the figure is, Goal how many it has to be.
	Times, Goal float64
}

// Footprint is what the sidecar costs before anybody calls it.
type Footprint struct {
	// Binary is the size of the stripped binary in bytes.
	Binary int64
	// Ready and Logged are the times to readiness of each start, by /readyz and by the log.
	Ready, Logged []time.Duration
	// IdleRSS is VmRSS after Calls calls and Idle without any, IdleAnon the part of it that is no page of a file.
	// FreshRSS is VmRSS without any call yet, WarmRSS two seconds after the calls.
	IdleRSS, IdleAnon, FreshRSS, WarmRSS int64
	Calls                                int
	Idle                                 time.Duration
}

// Misses names the limits that were not kept.
func (f *Footprint) Misses() []string {
	var out []string
	if f.Binary >= MaxBinary {
		out = append(out, "binary")
	}
	if median(f.Ready) >= MaxStartup {
		out = append(out, "startup")
	}
	if f.IdleRSS >= MaxIdleRSS {
		out = append(out, "idle memory")
	}
	return out
}

// Load is what calls cost.
type Load struct {
	// Paths are in the order of the tables, Callers in ascending order.
	Paths   []Path
	Callers []int
	Rounds  int
	Window  time.Duration
	// Size names the payload, Arguments is its size as JSON.
	Size      string
	Arguments int
	// Figures of each path and number of callers, one for each round.
	Figures map[Cell][]Figure
	// RSS and Peak are the sidecar's memory after the last round, and the most that it ever was.
	RSS, Peak int64
	// Skipped paths with the reason.
	Skipped []Skipped
}

// Path names a way to the backend.
type Path struct{ Name, Title string }

// Skipped is a path that could not be measured.
type Skipped struct{ Path, Reason string }

// Cell is one path at one number of callers.
type Cell struct {
	Path    string
	Callers int
}

// Figure is one cell in one round; times in microseconds, CPU per call.
type Figure struct {
	Rate, P50, P99                    float64
	MiddleCPU, BackendCPU, CallersCPU float64 // MiddleCPU is zero where nothing is between
}

// pick collects one figure of a cell over the rounds.
func (l *Load) pick(path string, callers int, get func(Figure) float64) series {
	var out series
	for _, f := range l.Figures[Cell{path, callers}] {
		out = append(out, get(f))
	}
	return out
}

func median(times []time.Duration) time.Duration {
	var s series
	for _, t := range times {
		s = append(s, float64(t))
	}
	if len(s) == 0 {
		return 0
	}
	return time.Duration(s.median())
}
