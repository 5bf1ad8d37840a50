// SPDX-License-Identifier: Apache-2.0

// Package e2e compares the sidecar with what is around it, from end to end: the direct call, the empty proxy, and
// servers that people write by hand with the SDKs of the field. Every subject is its own process in front of the
// same backend, so that the kernel counts its CPU time and memory apart from all others.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// Options say what is measured, and for how long.
type Options struct {
	// Binary is the sidecar, Other another build of it to be measured beside it, "" for none. Dir is a folder that
	// processes may work in.
	Binary, Other, Dir string
	// Subjects and Sizes name what is measured, all where empty.
	Subjects, Sizes []string
	Rounds          int
	// Callers is how many call at a time in the rounds, Crowd how many in the test that follows, 0 to leave it out.
	Callers, Crowd int
	// Warmup, Window, Longest and AtLeast are those of [load.Whole].
	Warmup, Window, Longest time.Duration
	AtLeast                 int
	// Digits tells whether to look at what subjects make of large numbers.
	Digits bool
}

// size is one payload and its goals, which come from the project's plan.
type size struct {
	name           string
	make           func() *desk.Page
	atMost, lessBy float64
	crowdLimit     int64 // bytes of memory with a crowd of callers, 0 for none
}

func sizes() []size {
	return []size{
		{name: "small", make: desk.Small, atMost: 1.3, lessBy: 3},
		{name: "medium", make: desk.Medium, atMost: 1.6, lessBy: 8, crowdLimit: 60_000_000},
		{name: "large", make: desk.Large, atMost: 4.5, lessBy: 12, crowdLimit: 300_000_000},
	}
}

func work(s size) path.Work { return s.make() }

// SizeNames lists the payloads.
func SizeNames() []string {
	var out []string
	for _, s := range sizes() {
		out = append(out, s.name)
	}
	return out
}

// Names of clocks that are no server's.
const (
	generator = "generator"
	backend   = "backend"
)

type run struct {
	Options

	say func(string, ...any)
}

// Measure makes the rounds of every size. Head is left to the caller. The first wrong answer or error of a subject in a
// round ends the run and is returned; one of the crowd's is in the report.
func Measure(ctx context.Context, opts Options, say func(string, ...any)) (*report.EndToEnd, error) {
	chosen, err := choose(opts.Subjects, opts.Other)
	if err != nil {
		return nil, err
	}
	r := &run{Options: opts, say: say}
	out := &report.EndToEnd{
		Rounds: opts.Rounds, Callers: opts.Callers, Window: opts.Window, Longest: opts.Longest, AtLeast: opts.AtLeast,
	}
	for _, e := range chosen {
		out.Subjects = append(out.Subjects, e.Subject)
	}
	for i, s := range sizes() {
		if len(opts.Sizes) > 0 && !slices.Contains(opts.Sizes, s.name) {
			continue
		}
		measured, err := r.size(ctx, s, i, chosen)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		out.Sizes = append(out.Sizes, *measured)
	}
	if opts.Digits {
		if out.Digits, err = r.digits(ctx, chosen); err != nil {
			return nil, fmt.Errorf("digits: %w", err)
		}
	}
	return out, nil
}

// size makes the rounds of one payload. Within a round every subject has its turn once, and each round begins with
// another, so that whatever slows the machine for a while hits all alike.
func (r *run) size(ctx context.Context, s size, first int, chosen []entrant) (out *report.Size, err error) {
	w := work(s)
	out = &report.Size{
		Name: s.name, Arguments: path.ArgumentsSize(w), AtMost: s.atMost, LessBy: s.lessBy,
		Figures: map[string][]report.Figure{}, Peak: map[string]int64{},
	}
	if r.Rounds > 0 {
		if err := r.rounds(ctx, w, first, chosen, out); err != nil {
			return nil, err
		}
	}
	if r.Crowd > 0 && slices.ContainsFunc(chosen, func(e entrant) bool { return e.Kind == report.Measured }) {
		if out.Crowd, err = r.crowd(ctx, w, s.crowdLimit); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *run) rounds(ctx context.Context, w path.Work, first int, chosen []entrant, out *report.Size) (err error) {
	st, err := r.set(ctx, chosen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	for round := range r.Rounds {
		for i := range chosen {
			e := chosen[(i+round+first)%len(chosen)]
			figure, err := r.cell(ctx, st, e, w)
			if err != nil {
				return fmt.Errorf("round %d: %s: %w", round+1, e.Name, err)
			}
			out.Figures[e.Name] = append(out.Figures[e.Name], figure)
			r.say("%-6s round %d of %d  %-18s %9.1f us CPU, %7.0f calls/s, p50 %7.0f us, p99 %7.0f us",
				out.Name, round+1, r.Rounds, e.Name, figure.MiddleCPU, figure.Rate, figure.P50, figure.P99)
		}
	}
	for _, e := range chosen {
		if e.process == "" {
			continue
		}
		memory, err := st.servers[e.process].Memory()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		out.Peak[e.Name] = memory.Peak
	}
	return nil
}

// cell measures one subject once, on fresh connections.
func (r *run) cell(ctx context.Context, st *stage, e entrant, w path.Work) (report.Figure, error) {
	clocks := []load.Clock{{Name: generator, Read: proc.OwnCPU}, {Name: backend, Read: st.backend.CPU}}
	if e.process != "" {
		clocks = append(clocks, load.Clock{Name: e.process, Read: st.servers[e.process].CPU})
	}
	sample, err := call(ctx, st.addrs(e), e.path, r.Callers, w, load.Options{
		Warmup: r.Warmup, Window: r.Window, Longest: r.Longest, AtLeast: r.AtLeast, Clocks: clocks,
	})
	if err != nil {
		return report.Figure{}, err
	}
	figure := report.Figure{
		Rate: sample.Rate(), P50: sample.Percentile(0.50), P99: sample.Percentile(0.99),
		BackendCPU: sample.CPUPerCall(backend), CallersCPU: sample.CPUPerCall(generator),
	}
	if e.process != "" {
		figure.MiddleCPU = sample.CPUPerCall(e.process)
	}
	return figure, nil
}

// call lets callers call on one path.
func call(ctx context.Context, addrs path.Addrs, name string, callers int, w path.Work, opts load.Options) (*load.Sample, error) {
	p, err := path.Named(name)
	if err != nil {
		return nil, err
	}
	session, err := p.Open(ctx, addrs, callers, w)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	return load.Whole(ctx, session.Callers, opts)
}

// crowd lets many callers call its own sidecar, and reads what it held.
func (r *run) crowd(ctx context.Context, w path.Work, limit int64) (out *report.Crowd, err error) {
	entrants, err := choose([]string{processSidecar}, "")
	if err != nil {
		return nil, err
	}
	st, err := r.set(ctx, entrants)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	e := entrants[0]
	out = &report.Crowd{Callers: r.Crowd, Limit: limit}
	sample, err := call(ctx, st.addrs(e), e.path, r.Crowd, w, load.Options{Warmup: r.Warmup, Window: 2 * r.Window})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out.Failure = err.Error()
		return out, nil
	}
	memory, err := st.servers[e.process].Memory()
	if err != nil {
		return nil, err
	}
	out.Calls, out.RSS, out.Peak = sample.Calls, memory.RSS, memory.Peak
	r.say("%d callers: %d calls, %.1f MB now, %.1f MB at most", r.Crowd, out.Calls, float64(out.RSS)/1e6, float64(out.Peak)/1e6)
	return out, nil
}
