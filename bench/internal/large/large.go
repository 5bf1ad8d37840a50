// SPDX-License-Identifier: Apache-2.0

// Package large measures what large calls cost: whether the CPU time of a byte stays the same from 410 KB to 16 MB,
// what 256 KB of two shapes cost beside an empty proxy, and what many callers of 3.3 MB need of memory. All of it are
// ratios of one run, and bytes.
package large

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	// Binary is the sidecar; Dir is a folder that processes may work in.
	Binary, Dir string
	Rounds      int
	// Callers call at a time in the rounds, Crowd in the test of memory that follows; 0 leaves that out.
	Callers, Crowd int
	Window         time.Duration
}

// limits admit calls of 16 MB, which the defaults do not.
const limits = `{"limits":{"max_message_bytes":50331648,"max_result_bytes":50331648},` +
	`"backend":{"max_send_bytes":33554432,"max_receive_bytes":33554432}}`

// Measure makes the rounds. Head is left to the caller.
func Measure(ctx context.Context, opts Options, say func(string, ...any)) (*report.Large, error) {
	r := &run{Options: opts, say: say}
	out := &report.Large{Callers: opts.Callers, Rounds: opts.Rounds, Crowd: opts.Crowd}
	if err := r.rounds(ctx, out); err != nil {
		return nil, err
	}
	if opts.Crowd > 0 {
		peak, err := r.crowd(ctx)
		if err != nil {
			return nil, fmt.Errorf("crowd: %w", err)
		}
		out.CrowdPeak = peak
		say("%d callers of 3.3 MB: %.0f MB at most", opts.Crowd, float64(peak)/1e6)
	}
	return out, nil
}

type run struct {
	Options

	say func(string, ...any)
}

// row is one payload. beside tells to call the empty proxy with it, too.
type row struct {
	report.LargeRow

	page   *desk.Page
	beside bool
}

// rows lists the payloads; Base names the one whose cost of a byte is the measure.
func rows() []*row {
	payload := func(name, base string, atMost float64, page *desk.Page) *row {
		return &row{LargeRow: report.LargeRow{Name: name, Base: base, AtMost: atMost}, page: page, beside: base == ""}
	}
	return []*row{
		payload("orders 410 KB", "", 0, desk.Consignments(249)),
		payload("orders 3.3 MB", "orders 410 KB", 1.2, desk.Consignments(2000)),
		payload("letters 410 KB", "", 0, desk.Letters(50)),
		payload("letters 3.3 MB", "letters 410 KB", 1.2, desk.Letters(400)),
		payload("letters 16 MB", "letters 410 KB", 1.2, desk.Letters(1960)),
		payload("nested 256 KB", "", 4, desk.Large()),
		payload("maps 256 KB", "", 5, desk.Maps(240)),
	}
}

// stage is what runs: the backend, the empty proxy and the sidecar.
type stage struct {
	backend, proxy *proc.Process
	sidecar        *sidecar.Sidecar
	addrs          path.Addrs
}

func (r *run) set(ctx context.Context) (st *stage, err error) {
	st = &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.stop())
		}
	}()
	if st.backend, st.addrs.Backend, err = peer.Start(ctx, r.Dir, peer.RoleBackend); err != nil {
		return st, err
	}
	if st.proxy, st.addrs.Proxy, err = peer.Start(ctx, r.Dir, peer.RoleProxy, st.addrs.Backend, desk.Small().Method()); err != nil {
		return st, err
	}
	config := filepath.Join(r.Dir, "large.json")
	if err := os.WriteFile(config, []byte(limits), 0o600); err != nil {
		return st, fmt.Errorf("limits: %w", err)
	}
	st.sidecar, err = sidecar.Start(ctx, r.Binary, r.Dir, "--config", config, "--backend", "grpc://"+st.addrs.Backend)
	if err == nil {
		st.addrs.Sidecar = st.sidecar.Addr
	}
	return st, err
}

// stop ends callers before callees.
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

// rounds gives every payload its turn in each round, and keeps the medians.
func (r *run) rounds(ctx context.Context, out *report.Large) (err error) {
	st, err := r.set(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	all := rows()
	for round := range r.Rounds {
		for i := range all {
			if err := r.cell(ctx, st, all[(i+round)%len(all)]); err != nil {
				return fmt.Errorf("round %d: %s: %w", round+1, all[(i+round)%len(all)].Name, err)
			}
		}
	}
	for _, w := range all {
		out.Rows = append(out.Rows, w.LargeRow)
	}
	return nil
}

func (r *run) cell(ctx context.Context, st *stage, w *row) error {
	w.Arguments = path.ArgumentsSize(w.page)
	cpu, err := r.cpu(ctx, st.addrs, "mcp", w.page, st.sidecar.CPU)
	if err != nil {
		return err
	}
	w.CPU = append(w.CPU, cpu)
	if w.beside {
		floor, err := r.cpu(ctx, st.addrs, "proxy", w.page, st.proxy.CPU)
		if err != nil {
			return err
		}
		w.Proxy = append(w.Proxy, floor)
	}
	r.say("%-15s %9.0f us CPU, %6.2f ns a byte", w.Name, cpu, cpu*1e3/float64(w.Arguments))
	return nil
}

// cpu is what a process needs for a call, in microseconds.
func (r *run) cpu(ctx context.Context, addrs path.Addrs, way string, page *desk.Page, clock func() (time.Duration, error)) (float64, error) {
	p, err := path.Named(way)
	if err != nil {
		return 0, err
	}
	session, err := p.Open(ctx, addrs, r.Callers, page)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	const process = "process"
	sample, err := load.Whole(ctx, session.Callers, load.Options{
		Warmup: r.Window / 4, Window: r.Window, Longest: 4 * r.Window, AtLeast: 20,
		Clocks: []load.Clock{{Name: process, Read: clock}},
	})
	if err != nil {
		return 0, err
	}
	return sample.CPUPerCall(process), nil
}

// crowd is the most memory that its own sidecar holds for many callers.
func (r *run) crowd(ctx context.Context) (peak int64, err error) {
	st, err := r.set(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	many := *r
	many.Callers = r.Crowd
	if _, err := many.cpu(ctx, st.addrs, "mcp", desk.Consignments(2000), st.sidecar.CPU); err != nil {
		return 0, err
	}
	memory, err := st.sidecar.Memory()
	return memory.Peak, err
}
