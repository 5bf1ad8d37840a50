// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// generator names this process among the clocks.
const generator = "generator"

// windowExtension is how much longer a window may get where no call was answered in it.
const windowExtension = 10 * time.Second

// stage is the set of processes that calls go through.
type stage struct {
	backend, proxy *proc.Process
	sidecar        *sidecar.Sidecar
	addrs          path.Addrs
	clocks         []load.Clock
}

// load makes the rounds. Within a round every number of callers meets every path once, and each round begins with
// another path, so that whatever slows the machine for a while hits all of them alike.
func (h *harness) load(ctx context.Context) (result *report.Load, err error) {
	st, err := h.set(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	work := path.Echo(h.payload())
	result = &report.Load{
		Callers: h.opts.callers, Rounds: h.opts.rounds, Window: h.opts.window, Size: h.opts.size,
		Arguments: path.ArgumentsSize(work), Figures: map[report.Cell][]report.Figure{},
	}
	paths := h.preflight(ctx, st, work, result)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for round := range h.opts.rounds {
		for _, callers := range h.opts.callers {
			for i := range paths {
				p := paths[(i+round)%len(paths)]
				figure, err := h.cell(ctx, st, p, callers, work)
				if err != nil {
					return nil, fmt.Errorf("round %d, %d callers: %w", round+1, callers, err)
				}
				cell := report.Cell{Path: p.Name, Callers: callers}
				result.Figures[cell] = append(result.Figures[cell], figure)
				h.say("round %d of %d, %3d callers, %-16s %7.0f calls/s, %6.1f us CPU, p50 %6.0f us, p99 %6.0f us",
					round+1, h.opts.rounds, callers, p.Name, figure.Rate, figure.MiddleCPU, figure.P50, figure.P99)
			}
		}
	}
	memory, err := st.sidecar.Memory()
	result.RSS, result.Peak = memory.RSS, memory.Peak
	return result, err
}

// preflight makes one call on every path and leaves out those on which it fails, with the reason, so that one edge that
// does not work yet does not hide the figures of the others.
func (h *harness) preflight(ctx context.Context, st *stage, work path.Work, into *report.Load) []*path.Path {
	var working []*path.Path
	for _, p := range h.opts.paths {
		err := func() error {
			session, err := p.Open(ctx, st.addrs, 1, work)
			if err != nil {
				return err
			}
			defer session.Close()
			return repeat(ctx, session.Callers[0], 2) // the second answer is checked in another way
		}()
		if err != nil {
			h.say("%s is left out: %v", p.Name, err)
			into.Skipped = append(into.Skipped, report.Skipped{Path: p.Name, Reason: err.Error()})
			continue
		}
		working = append(working, p)
		into.Paths = append(into.Paths, report.Path{Name: p.Name, Title: p.Title})
	}
	return working
}

// cell measures one path at one number of callers, on fresh connections.
func (h *harness) cell(ctx context.Context, st *stage, p *path.Path, callers int, work path.Work) (report.Figure, error) {
	session, err := p.Open(ctx, st.addrs, callers, work)
	if err != nil {
		return report.Figure{}, err
	}
	defer session.Close()
	// On a machine where others are at work, a short window may pass without an answer.
	sample, err := load.Run(ctx, session.Callers, load.Options{
		Warmup: h.opts.warmup, Window: h.opts.window, AtLeast: 1, Longest: h.opts.window + windowExtension, Clocks: st.clocks,
	})
	if err != nil {
		return report.Figure{}, fmt.Errorf("path %s: %w", p.Name, err)
	}
	figure := report.Figure{
		Rate: sample.Rate(), P50: sample.Percentile(0.50), P99: sample.Percentile(0.99),
		BackendCPU: sample.CPUPerCall(path.Backend), CallersCPU: sample.CPUPerCall(generator),
	}
	if p.Middle != "" {
		figure.MiddleCPU = sample.CPUPerCall(p.Middle)
	}
	return figure, nil
}

// set starts backend, proxy and sidecar.
func (h *harness) set(ctx context.Context) (*stage, error) {
	st := &stage{clocks: []load.Clock{{Name: generator, Read: proc.OwnCPU}}}
	err := func() (err error) {
		if st.backend, st.addrs.Backend, err = peer.Start(ctx, h.dir, peer.RoleBackend); err != nil {
			return err
		}
		if st.proxy, st.addrs.Proxy, err = peer.Start(ctx, h.dir, peer.RoleProxy, st.addrs.Backend, peer.EchoMethod); err != nil {
			return err
		}
		st.sidecar, err = sidecar.Start(ctx, h.binary, h.dir, "--backend", "grpc://"+st.addrs.Backend, "--log-level", "warn")
		return err
	}()
	if err != nil {
		return nil, errors.Join(err, st.stop())
	}
	st.addrs.Sidecar = st.sidecar.Addr
	st.clocks = append(st.clocks,
		load.Clock{Name: path.Backend, Read: st.backend.CPU},
		load.Clock{Name: path.Proxy, Read: st.proxy.CPU},
		load.Clock{Name: path.Sidecar, Read: st.sidecar.CPU})
	return st, nil
}

// stop ends what was started, callers before callees.
func (st *stage) stop() error {
	var errs []error
	if st.sidecar != nil {
		errs = append(errs, st.sidecar.Stop())
	}
	for _, p := range []*proc.Process{st.proxy, st.backend} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}
