// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/many"
)

// backendsOptions are the flags of the benchmark of several backends.
type backendsOptions struct {
	many.Options
	common

	quick bool
}

func parseBackends(args []string, stderr io.Writer) (*backendsOptions, error) {
	o := &backendsOptions{common: common{page: "docs/many-backends.md"}}
	flags := o.flags("bench backends", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of few backends; do not quote its figures")
	flags.IntVar(&o.Rounds, "rounds", 7, "number of rounds")
	flags.IntVar(&o.Backends, "backends", 50, "backends of a sidecar, the odd ones among them")
	flags.IntVar(&o.Callers, "callers", 4, "concurrent callers")
	flags.IntVar(&o.Hanging, "hanging", 300, "calls that wait for the slow backend")
	flags.DurationVar(&o.Window, "window", 1500*time.Millisecond, "time in which calls count")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{"rounds": "1", "backends": "8", "window": "50ms"})
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *backendsOptions) validate(rest []string) error {
	const most = 100 // of one sidecar
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %s? there are only flags", rest[0])
	case o.Rounds < 1 || o.Window <= 0:
		return errors.New("-rounds, -window: want at least one round, and a time that passes")
	case o.Backends <= many.Odd || o.Backends > most:
		return fmt.Errorf("-backends: want more than the %d odd ones, and up to %d", many.Odd, most)
	case o.Callers < 1 || o.Callers > mostCallers/o.Backends || o.Hanging < 0 || o.Hanging > mostCallers:
		return fmt.Errorf("-callers, -hanging: want at least one caller, and up to %d connections: one for each caller and backend, one for each call that hangs", mostCallers)
	}
	return nil
}

func (o *backendsOptions) planned() time.Duration {
	const stages = 3
	return time.Duration(o.Rounds*stages) * (5*o.Window + 3*time.Second)
}

func commandBackends(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseBackends(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		o.Binary, o.Dir = s.binary, s.dir
		r, err := many.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-backends", args)
		return o.publish(s, "bench-backends", r.Markdown(), r.Missed(), stdout)
	})
}
