// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/large"
)

// largeOptions are the flags of the benchmark of large calls.
type largeOptions struct {
	large.Options
	common

	quick bool
}

func parseLarge(args []string, stderr io.Writer) (*largeOptions, error) {
	o := &largeOptions{}
	flags := o.flags("bench large", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of short windows; do not quote its figures")
	flags.IntVar(&o.Rounds, "rounds", 3, "number of rounds")
	flags.IntVar(&o.Callers, "callers", 4, "concurrent callers in the rounds")
	flags.IntVar(&o.Crowd, "crowd", 50, "concurrent callers of a separate sidecar after the rounds; 0 skips this")
	flags.DurationVar(&o.Window, "window", time.Second, "time in which calls count")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{"rounds": "1", "callers": "2", "crowd": "4", "window": "20ms"})
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *largeOptions) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %s? there are only flags", rest[0])
	case o.Rounds < 1 || o.Window <= 0:
		return errors.New("-rounds, -window: want at least one round, and a time that passes")
	case o.Callers < 1 || o.Callers > mostCallers || o.Crowd < 0 || o.Crowd > mostCallers:
		return fmt.Errorf("-callers, -crowd: want up to %d", mostCallers)
	}
	return nil
}

func (o *largeOptions) planned() time.Duration {
	const rows = 11 // payloads, with those of the proxy
	return time.Duration(o.Rounds*rows+1) * (4*o.Window + 3*time.Second)
}

func commandLarge(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseLarge(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		o.Binary, o.Dir = s.binary, s.dir
		r, err := large.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-large", args)
		return o.publish(s, "bench-large", r.Markdown(), r.Missed(), stdout)
	})
}
