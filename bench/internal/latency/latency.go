// SPDX-License-Identifier: Apache-2.0

// Package latency measures how much later an answer comes because the sidecar is in between, at a rate that leaves
// the machine mostly idle, and what memory a sidecar holds: idle, and with many callers.
package latency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Options say what is measured, and for how long.
type Options struct {
	// Binary is the sidecar, Dir a folder that processes may work in.
	Binary, Dir string
	// Rate is in calls per second.
	Rate           float64
	Rounds         int
	Warmup, Window time.Duration
	// Rest is how long a sidecar rests before its memory is read as idle.
	Rest time.Duration
	// Crowd is how many callers call at a time for the memory at work, for CrowdWindow.
	Crowd       int
	CrowdWindow time.Duration
}

const (
	// callers is how many calls can be in flight. At 1,000 calls/s and a millisecond each, one is.
	callers = 32
	// idleCalls wake everything that a first call makes and keeps.
	idleCalls = 10
)

// ways are the subjects by name, in the order of the table.
func ways() []report.Subject {
	return []report.Subject{
		{Name: "direct", Title: "grpc-go directly to the backend", Kind: report.Direct},
		{Name: "mcp", Title: "the sidecar, `/mcp`, MCP 2026-07-28", Kind: report.Measured},
		{Name: "proxy", Title: "empty net/http to grpc-go proxy, bytes untouched", Kind: report.Floor},
	}
}

type run struct {
	Options

	say func(string, ...any)
}

// Measure makes the rounds and reads the memory. Head is left to the caller. The first wrong answer or error ends the run
// and is returned.
func Measure(ctx context.Context, opts Options, say func(string, ...any)) (*report.Latency, error) {
	r := &run{Options: opts, say: say}
	w := desk.Kilobyte()
	out := &report.Latency{
		Rate: opts.Rate, Rounds: opts.Rounds, Warmup: opts.Warmup, Window: opts.Window, Arguments: path.ArgumentsSize(w),
		Subjects: ways(), Figures: map[string][]report.Timing{},
	}
	b, addr, err := peer.Start(ctx, opts.Dir, peer.RoleBackend)
	if err != nil {
		return nil, err
	}
	err = errors.Join(r.rounds(ctx, addr, w, out), r.memory(ctx, addr, w, &out.Memory), b.Stop())
	return out, err
}

func (r *run) rounds(ctx context.Context, backend string, w path.Work, out *report.Latency) (err error) {
	proxy, proxyAddr, err := peer.Start(ctx, r.Dir, peer.RoleProxy, backend, w.Method())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Stop()) }()
	s, err := r.start(ctx, backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	addrs := path.Addrs{Backend: backend, Proxy: proxyAddr, Sidecar: s.Addr}
	for round := range r.Rounds {
		for i := range out.Subjects {
			name := out.Subjects[(i+round)%len(out.Subjects)].Name
			timing, err := r.window(ctx, addrs, name, w)
			if err != nil {
				return fmt.Errorf("round %d: %s: %w", round+1, name, err)
			}
			out.Figures[name] = append(out.Figures[name], timing)
			r.say("round %d of %d  %-7s p50 %5.0f us, p99 %5.0f us, p99.9 %5.0f us", round+1, r.Rounds, name, timing.P50, timing.P99, timing.P999)
		}
	}
	return nil
}

// window measures one subject once. Before the schedule begins every caller calls once, so that no connection is opened
// in it.
func (r *run) window(ctx context.Context, addrs path.Addrs, name string, w path.Work) (report.Timing, error) {
	session, err := open(ctx, addrs, name, callers, w)
	if err != nil {
		return report.Timing{}, err
	}
	defer session.Close()
	if _, err := load.Whole(ctx, session.Callers, load.Options{}); err != nil {
		return report.Timing{}, err
	}
	sample, err := load.Open(ctx, session.Callers, load.Schedule{Rate: r.Rate, Warmup: r.Warmup, Window: r.Window, Wait: proc.Nap})
	if err != nil {
		return report.Timing{}, err
	}
	return report.Timing{P50: sample.Percentile(0.50), P90: sample.Percentile(0.90), P99: sample.Percentile(0.99), P999: sample.Percentile(0.999)}, nil
}

func (r *run) start(ctx context.Context, backend string) (*sidecar.Sidecar, error) {
	return sidecar.Start(ctx, r.Binary, r.Dir, "--backend", "grpc://"+backend)
}

func open(ctx context.Context, addrs path.Addrs, name string, callers int, w path.Work) (*path.Session, error) {
	p, err := path.Named(name)
	if err != nil {
		return nil, err
	}
	return p.Open(ctx, addrs, callers, w)
}

// memory reads what a sidecar holds that was hardly called and rested, and what another one holds with many callers.
func (r *run) memory(ctx context.Context, backend string, w path.Work, into *report.ServerMemory) (err error) {
	into.Calls, into.Rest, into.Callers = idleCalls, r.Rest, r.Crowd
	quiet, err := r.start(ctx, backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, quiet.Stop()) }()
	busy, err := r.start(ctx, backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, busy.Stop()) }()
	if into.CrowdCalls, err = r.crowd(ctx, busy, w); err != nil {
		return fmt.Errorf("%d callers: %w", r.Crowd, err)
	}
	if err := few(ctx, quiet, w); err != nil {
		return err
	}
	r.say("idle for %v", r.Rest)
	select {
	case <-time.After(r.Rest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	idle, err := quiet.Memory()
	if err != nil {
		return err
	}
	after, err := busy.Memory()
	into.Idle, into.IdleAnon, into.Peak, into.After = idle.RSS, idle.Anon, after.Peak, after.RSS
	return err
}

func (r *run) crowd(ctx context.Context, s *sidecar.Sidecar, w path.Work) (int, error) {
	r.say("%d callers for %v", r.Crowd, r.CrowdWindow)
	session, err := open(ctx, path.Addrs{Sidecar: s.Addr}, "mcp", r.Crowd, w)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	sample, err := load.Whole(ctx, session.Callers, load.Options{Window: r.CrowdWindow, Longest: r.CrowdWindow})
	if err != nil {
		return 0, err
	}
	return sample.Calls, nil
}

func few(ctx context.Context, s *sidecar.Sidecar, w path.Work) error {
	session, err := open(ctx, path.Addrs{Sidecar: s.Addr}, "mcp", 1, w)
	if err != nil {
		return err
	}
	defer session.Close()
	for range idleCalls {
		if err := session.Callers[0].Call(ctx); err != nil {
			return err
		}
	}
	return nil
}
