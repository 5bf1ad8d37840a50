// SPDX-License-Identifier: Apache-2.0

// Package soak keeps a sidecar busy at half of what it can do for a long time, and watches whether its memory and its
// goroutines stay where they were.
package soak

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Options say how long and how hard.
type Options struct {
	// Binary is the sidecar, Dir a folder that processes may work in.
	Binary, Dir string
	// Duration is how long the sidecar is kept busy, Every how often it is looked at.
	Duration, Every time.Duration
	// Callers is how many call at a time, in equal parts on every edge that speaks JSON.
	Callers int
	// Capacity is for how long they call as fast as they can, to find out how much that is; Share is the part of it that
	// the sidecar is kept busy with.
	Capacity time.Duration
	Share    float64
	// Rest passes before and after, for the figures of an idle sidecar.
	Rest time.Duration
}

// edges are the paths that callers use in turn.
func edges() []string { return []string{"mcp", "mcp-legacy", "rpc"} }

type run struct {
	Options

	say     func(string, ...any)
	sidecar *sidecar.Sidecar
}

// Measure keeps a sidecar busy. Head is left to the caller. What callers found wrong is in the report's Failure; an
// error is what kept it from being measured.
func Measure(ctx context.Context, opts Options, say func(string, ...any)) (out *report.Soak, err error) {
	b, addr, err := peer.Start(ctx, opts.Dir, peer.RoleBackend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	s, err := sidecar.Start(ctx, opts.Binary, opts.Dir, "--backend", "grpc://"+addr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	r := &run{Options: opts, say: say, sidecar: s}
	w := desk.Kilobyte()
	out = &report.Soak{Duration: opts.Duration, Every: opts.Every, Callers: opts.Callers, Share: opts.Share, Arguments: path.ArgumentsSize(w), Edges: edges()}
	if out.Before, err = r.rest(ctx); err != nil {
		return nil, err
	}
	if err := r.busy(ctx, w, out); err != nil {
		return nil, err
	}
	out.After, err = r.rest(ctx)
	return out, err
}

// busy finds out the capacity and keeps the sidecar busy with a share of it.
func (r *run) busy(ctx context.Context, w path.Work, out *report.Soak) error {
	callers, closeAll, err := r.open(ctx, w)
	if err != nil {
		return err
	}
	defer closeAll()
	sample, err := load.Whole(ctx, callers, load.Options{Warmup: time.Second, Window: r.Capacity, Longest: r.Capacity})
	if err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	out.Capacity = sample.Rate()
	out.Rate = out.Capacity * r.Share
	r.say("%.0f calls/s are the most; %.0f calls/s for %v", out.Capacity, out.Rate, r.Duration)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var answered atomic.Int64
	watched := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		err := r.watch(ctx, &answered, stop, out)
		if err != nil {
			cancel(err)
		}
		watched <- err
	}()
	sample, err = load.Open(ctx, callers, load.Schedule{
		Rate: out.Rate, Window: r.Duration, Wait: proc.Nap, Answered: &answered,
		Clocks: []load.Clock{{Name: "sidecar", Read: r.sidecar.CPU}},
	})
	close(stop)
	if failed := <-watched; failed != nil {
		return failed
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		out.Failure = err.Error()
		return nil
	}
	out.Calls, out.P50, out.P99, out.CPU = sample.Calls, sample.Percentile(0.5), sample.Percentile(0.99), sample.CPUPerCall("sidecar")
	return nil
}

// open makes callers on every edge, in turn.
func (r *run) open(ctx context.Context, w path.Work) (callers []load.Caller, closeAll func(), err error) {
	var sessions []*path.Session
	closeAll = func() {
		for _, s := range sessions {
			s.Close()
		}
	}
	for i, name := range edges() {
		p, err := path.Named(name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		count := (r.Callers + i) / len(edges())
		s, err := p.Open(ctx, path.Addrs{Sidecar: r.sidecar.Addr}, max(count, 1), w)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		sessions = append(sessions, s)
		callers = append(callers, s.Callers...)
	}
	return callers, closeAll, nil
}

// watch looks at the sidecar from time to time until stop is closed.
func (r *run) watch(ctx context.Context, answered *atomic.Int64, stop <-chan struct{}, out *report.Soak) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	start, last, lastAt := time.Now(), int64(0), time.Now()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil // the callers' error says why
		}
		look, err := r.look(ctx)
		if err != nil {
			return err
		}
		now, count := time.Now(), answered.Load()
		look.At, look.Rate = now.Sub(start), float64(count-last)/now.Sub(lastAt).Seconds()
		last, lastAt = count, now
		out.Looks = append(out.Looks, look)
		r.say("%7v  %6.0f calls/s  %5.1f MB  %4d goroutines  heap %5.1f MB", look.At.Round(time.Second), look.Rate, float64(look.RSS)/1e6, look.Goroutines, float64(look.Heap)/1e6)
	}
}

func (r *run) look(ctx context.Context) (report.Look, error) {
	memory, err := r.sidecar.Memory()
	if err != nil {
		return report.Look{}, err
	}
	goroutines, heap, err := scrape(ctx, r.sidecar.Admin)
	return report.Look{RSS: memory.RSS, Anon: memory.Anon, Heap: heap, Goroutines: goroutines}, err
}

// rest lets the sidecar rest and looks at it then.
func (r *run) rest(ctx context.Context) (report.Look, error) {
	select {
	case <-time.After(r.Rest):
		return r.look(ctx)
	case <-ctx.Done():
		return report.Look{}, context.Cause(ctx)
	}
}
