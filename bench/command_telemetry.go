// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/e2e"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// idleLimit is what an idle sidecar with exporters may hold.
const idleLimit = 30_000_000

// telemetryOptions are the flags of the benchmark of telemetry.
type telemetryOptions struct {
	e2e.Options
	common

	quick bool
	idle  time.Duration
}

func parseTelemetry(args []string, stderr io.Writer) (*telemetryOptions, error) {
	o := &telemetryOptions{}
	flags := o.flags("bench telemetry", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of short windows; do not quote its figures")
	flags.StringVar(&o.Other, "other", "", "also measure this `binary` of the sidecar, a build without telemetry")
	flags.IntVar(&o.Rounds, "rounds", 11, "number of rounds")
	flags.IntVar(&o.Callers, "callers", 50, "concurrent callers")
	flags.DurationVar(&o.Warmup, "warmup", 200*time.Millisecond, "time between every caller's first response and the window")
	flags.DurationVar(&o.Window, "window", 2*time.Second, "time in which calls count")
	flags.DurationVar(&o.idle, "idle", 40*time.Second, "how long the sidecar is idle before its memory is read")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{"rounds": "1", "callers": "4", "warmup": "5ms", "window": "50ms", "idle": "100ms"})
	}
	o.Longest, o.AtLeast = o.Window, 1
	o.Sizes = []string{"small"}
	o.Subjects = []string{"sidecar", "sidecar-otel-1", "sidecar-otel-100"}
	if o.Other != "" {
		o.Subjects = append(o.Subjects, "other")
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *telemetryOptions) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %s? there are only flags", rest[0])
	case o.Rounds < 1 || o.Window <= 0 || o.Warmup < 0 || o.idle < 0:
		return errors.New("-rounds, -window, -warmup, -idle: want at least one round, and times that pass")
	case o.Callers < 1 || o.Callers > mostCallers:
		return fmt.Errorf("-callers: want 1 to %d", mostCallers)
	}
	return nil
}

func (o *telemetryOptions) planned() time.Duration {
	return time.Duration(o.Rounds*len(o.Subjects))*(o.Window+o.Warmup+time.Second) + o.idle
}

func commandTelemetry(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseTelemetry(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		r := &report.Telemetry{IdleLimit: idleLimit}
		if o.Other != "" {
			r.Before = "other"
			if o.Other, err = absolute("-other", o.Other); err != nil {
				return err
			}
		}
		o.Binary, o.Dir = s.binary, s.dir
		calls, err := e2e.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.EndToEnd = *calls
		if r.IdleRSS, err = o.idleMemory(ctx, s); err != nil {
			return fmt.Errorf("idle memory: %w", err)
		}
		r.Head = s.head(ctx, "bench-telemetry", args)
		return o.publish(s, "bench-telemetry", r.Markdown(), r.Missed(), stdout)
	})
}

// idleMemory is what a sidecar with exporters holds when it has been called a few times and then been idle.
func (o *telemetryOptions) idleMemory(ctx context.Context, s *site) (rss int64, err error) {
	sink, addr, err := peer.Start(ctx, s.dir, peer.RoleSink)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, sink.Stop()) }()
	idle, err := sidecar.StartWith(ctx, e2e.Exporting(addr, 1), s.binary, s.dir, "--demo")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, idle.Stop()) }()
	h := &harness{opts: &options{size: "small"}, progress: io.Discard}
	if err := h.fewCalls(ctx, idle.Addr); err != nil {
		return 0, err
	}
	memory, err := h.rest(ctx, idle, o.idle)
	return memory.RSS, err
}
