// SPDX-License-Identifier: Apache-2.0

// Package contract measures what the canonical contract gives targets for:
// registration, listing, schemas, envelopes, discovery, and dispatch over both
// transports. Everything is the sidecar's own code or its binary, against real
// peers on loopback.
package contract

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// Row is one figure beside its target.
type Row struct {
	// What is measured, and Target what the contract asks for.
	What, Target string
	// Figure is what was measured, in words.
	Figure string
	// Times is how many times better than the target the figure is, and Goal
	// how many times better it has to be; zero is [Goal].
	Times, Goal float64
}

// Goal is how many times better than its target a row has to be.
const Goal = 10

// Measure takes every figure. binary is the sidecar, dir a folder that it may
// write to; progress learns what comes next. The backend of the calls is this
// executable once more, so that its main function has to know Main of bench/internal/peer.
func Measure(ctx context.Context, binary, dir string, progress func(string, ...any)) ([]Row, error) {
	defer peer.PaceCollector()() // what is measured in this process has the collector that it has in the sidecar
	var rows []Row
	for _, part := range []struct {
		name string
		take func(context.Context) ([]Row, error)
	}{
		{"envelopes and schemas", documents},
		{"a catalog of 1,000 tools", catalogs},
		{"discovery of 200 services", discovery},
		{"dispatch over stdio", func(ctx context.Context) ([]Row, error) {
			return behind(ctx, dir, func(backend string) ([]Row, error) { return overStdio(ctx, binary, dir, backend) })
		}},
		{"run records", func(ctx context.Context) ([]Row, error) {
			return behind(ctx, dir, func(backend string) ([]Row, error) { return records(ctx, binary, dir, backend) })
		}},
		{"open streams", func(ctx context.Context) ([]Row, error) { return streams(ctx, binary, dir) }},
		{"dispatch over HTTP", func(ctx context.Context) ([]Row, error) {
			return behind(ctx, dir, func(backend string) ([]Row, error) { return overHTTP(ctx, binary, dir, backend) })
		}},
	} {
		progress("contract: %s", part.name)
		got, err := part.take(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

// below is a row whose target is a time that must not be reached.
func below(what string, target, got time.Duration) Row {
	return Row{
		What: what, Target: "< " + target.String(), Figure: round(got).String(),
		Times: float64(target) / float64(max(got, 1)),
	}
}

// above is a row whose target is a rate that must be exceeded.
func above(what string, target, got float64) Row {
	return Row{
		What: what, Target: fmt.Sprintf("> %.0f calls/s", target), Figure: fmt.Sprintf("%.0f calls/s", got),
		Times: got / target,
	}
}

// round keeps three digits or so.
func round(d time.Duration) time.Duration {
	for unit := time.Second; unit > 1; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

// perRun is how long one run of fn takes.
func perRun(fn func() error) (time.Duration, error) {
	var failed error
	result := testing.Benchmark(func(b *testing.B) { //nolint:thelper // it is the benchmark, not a helper of one
		for b.Loop() {
			if err := fn(); err != nil {
				failed = err
				b.FailNow()
			}
		}
	})
	if failed != nil {
		return 0, failed
	}
	return time.Duration(result.NsPerOp()), nil
}
