// SPDX-License-Identifier: Apache-2.0

// Package streams measures what a message of a stream costs that passes through the sidecar, beside the same message
// through an empty proxy, and what a stream holds that is open and at rest.
package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Options say what is measured.
type Options struct {
	// Binary is the sidecar; Dir is a folder that processes may work in.
	Binary, Dir string
	Rounds      int
	// Streams are open at a time, each with Small messages of 200 bytes or Large ones of 16 KB.
	Streams, Small, Large int
	// Only these kinds of streams; none for all.
	Only []string
	// Open streams are held for the measure of memory; 0 leaves it out.
	Open int
}

// Sizes of messages, in bytes, and what of an item is no payload.
const (
	smallItem = 200
	largeItem = 16 << 10
	overhead  = 8
)

// Measure makes the rounds. Head is left to the caller.
func Measure(ctx context.Context, opts Options, say func(string, ...any)) (out *report.Streams, err error) {
	r := &run{Options: opts, say: say}
	out = &report.Streams{Streams: opts.Streams, Rounds: opts.Rounds, Small: opts.Small, Large: opts.Large, Open: opts.Open}
	if err := r.set(ctx); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if out.Rows, err = r.rounds(ctx); err != nil {
		return nil, err
	}
	if opts.Open > 0 {
		if out.Held, err = r.memory(ctx); err != nil {
			return nil, fmt.Errorf("memory: %w", err)
		}
	}
	return out, nil
}

// run is a measurement under way.
type run struct {
	Options

	say            func(string, ...any)
	backend, proxy *proc.Process
	sidecar        *sidecar.Sidecar
	through        [2]subject // the sidecar, and the proxy
}

// subject is a process that streams pass through.
type subject struct {
	name    string
	process *proc.Process
	conn    *grpc.ClientConn
}

// set starts everything.
func (r *run) set(ctx context.Context) error {
	var at, proxy string
	var err error
	if r.backend, at, err = peer.Start(ctx, r.Dir, peer.RoleBackend); err != nil {
		return err
	}
	if r.proxy, proxy, err = peer.Start(ctx, r.Dir, peer.RoleStreamProxy, at); err != nil {
		return err
	}
	if r.sidecar, err = sidecar.Start(ctx, r.Binary, r.Dir, "--backend", "grpc://"+at, "--log-level", "warn"); err != nil {
		return err
	}
	r.through[0] = subject{name: "sidecar", process: r.sidecar.Process}
	r.through[1] = subject{name: "proxy", process: r.proxy}
	for i, addr := range []string{r.sidecar.Addr, proxy} {
		if r.through[i].conn, err = dial(addr); err != nil {
			return err
		}
	}
	return nil
}

func dial(addr string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return conn, nil
}

// stop ends callers before callees.
func (r *run) stop() error {
	var errs []error
	for _, s := range r.through {
		if s.conn != nil {
			errs = append(errs, s.conn.Close())
		}
	}
	if r.sidecar != nil {
		errs = append(errs, r.sidecar.Stop())
	}
	for _, p := range []*proc.Process{r.proxy, r.backend} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// Kinds of streams.
func Kinds() []string { return []string{"client", "server", "bidi", "ping-pong"} }

// cell is one kind of streams with messages of one size.
type cell struct {
	kind    string
	flow    flow
	payload int
	items   int // of each stream
}

func (r *run) cells() []cell {
	var out []cell
	for _, k := range []struct {
		name string
		flow flow
	}{{"client", collect}, {"server", produce}, {"bidi", relay}, {"ping-pong", pingPong}} {
		if len(r.Only) > 0 && !slices.Contains(r.Only, k.name) {
			continue
		}
		out = append(out, cell{kind: k.name, flow: k.flow, payload: smallItem - overhead, items: r.Small}, cell{kind: k.name, flow: k.flow, payload: largeItem - overhead, items: r.Large})
	}
	return out
}

// rounds lets every cell pass through both subjects in each round, in turns.
func (r *run) rounds(ctx context.Context) ([]report.StreamsRow, error) {
	cells := r.cells()
	rows := make([]report.StreamsRow, len(cells))
	for _, s := range r.through {
		for _, c := range cells {
			c.items = 50 // warms up
			if _, err := r.pass(ctx, s, c); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", s.name, c.kind, err)
			}
		}
	}
	for round := range r.Rounds {
		for i := range cells {
			at := (i + round) % len(cells)
			c, row := cells[at], &rows[at]
			row.Kind, row.Bytes = c.kind, c.payload+overhead
			for j := range r.through {
				s := r.through[(j+round)%len(r.through)]
				figure, err := r.pass(ctx, s, c)
				if err != nil {
					return nil, fmt.Errorf("round %d: %s, %s: %w", round+1, s.name, c.kind, err)
				}
				if s.name == "sidecar" {
					row.Sidecar = append(row.Sidecar, figure)
				} else {
					row.Proxy = append(row.Proxy, figure)
				}
				r.say("round %d, %-9s %5d B, %-7s %7.0f messages/s, %6.2f us CPU", round+1, c.kind, row.Bytes, s.name, figure.Rate, figure.CPU)
			}
		}
	}
	return rows, nil
}

// client is the generated client of a subject.
func (s subject) client() benchv1.FlowClient { return benchv1.NewFlowClient(s.conn) }
