// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/latency"
)

// latencyOptions are the flags of the latency benchmark.
type latencyOptions struct {
	latency.Options
	common

	quick bool
}

func parseLatency(args []string, stderr io.Writer) (*latencyOptions, error) {
	o := &latencyOptions{}
	flags := o.flags("bench latency", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of short windows, a few seconds; do not quote its figures")
	flags.Float64Var(&o.Rate, "rate", 1000, "offered calls per second")
	flags.IntVar(&o.Rounds, "rounds", 5, "number of rounds")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "warmup time before calls count")
	flags.DurationVar(&o.Window, "window", 5*time.Second, "time in which calls count")
	flags.DurationVar(&o.Rest, "rest", 22*time.Second, "idle time before the sidecar's memory is read")
	flags.IntVar(&o.Crowd, "crowd", 256, "concurrent callers for the memory under load")
	flags.DurationVar(&o.CrowdWindow, "crowd-window", 5*time.Second, "duration of that load")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{
			"rounds": "1", "rate": "100", "warmup": "10ms", "window": "200ms", "rest": "10ms", "crowd": "16", "crowd-window": "50ms",
		})
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *latencyOptions) validate(rest []string) error {
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(len(rest) > 0, "what is "+strings.Join(rest, " ")+"? there are only flags")
	refuse(o.Rounds < 1, "-rounds: want at least 1")
	refuse(!(o.Rate >= 1 && o.Rate <= 100_000), "-rate: want 1 to 100000")
	refuse(o.Crowd < 1 || o.Crowd > mostCallers, fmt.Sprintf("-crowd: want 1 to %d", mostCallers))
	refuse(o.Window <= 0 || o.CrowdWindow <= 0 || o.Warmup < 0 || o.Rest < 0, "-window, -crowd-window, -warmup, -rest: want times that pass")
	return errors.Join(errs...)
}

func (o *latencyOptions) planned() time.Duration {
	const subjects = 3
	return time.Duration(o.Rounds*subjects)*(o.Warmup+o.Window+100*time.Millisecond) + o.CrowdWindow + o.Rest
}

func commandLatency(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseLatency(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		o.Binary, o.Dir = s.binary, s.dir
		r, err := latency.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-latency", args)
		return o.publish(s, "bench-latency", r.Markdown(), r.Missed(), stdout)
	})
}
