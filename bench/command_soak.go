// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/soak"
)

// longestSoak bounds a soak: every latency is kept until the end.
const longestSoak = 2 * time.Hour

// soakOptions are the flags of the soak.
type soakOptions struct {
	soak.Options
	common

	quick bool
}

func parseSoak(args []string, stderr io.Writer) (*soakOptions, error) {
	o := &soakOptions{}
	flags := o.flags("bench soak", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test of a few seconds; do not quote its figures")
	flags.DurationVar(&o.Duration, "duration", 10*time.Minute, "duration of the load, at most 2h")
	flags.DurationVar(&o.Every, "every", 5*time.Second, "sampling interval")
	flags.IntVar(&o.Callers, "callers", 50, "concurrent callers, in equal parts on every edge")
	flags.DurationVar(&o.Capacity, "capacity", 10*time.Second, "duration of the capacity measurement before the load")
	flags.Float64Var(&o.Share, "share", 0.5, "load as a share of the capacity")
	flags.DurationVar(&o.Rest, "rest", 22*time.Second, "idle time before the first and the last sample")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{"duration": "2s", "every": "100ms", "callers": "6", "capacity": "100ms", "share": "0.1", "rest": "10ms"})
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *soakOptions) validate(rest []string) error {
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(len(rest) > 0, "what is "+strings.Join(rest, " ")+"? there are only flags")
	refuse(o.Duration <= 0 || o.Duration > longestSoak, fmt.Sprintf("-duration: want a time up to %v", longestSoak))
	refuse(o.Every < 10*time.Millisecond || o.Every > o.Duration, "-every: want 10ms to -duration")
	refuse(o.Callers < 1 || o.Callers > mostCallers, fmt.Sprintf("-callers: want 1 to %d", mostCallers))
	refuse(o.Capacity <= 0 || o.Rest < 0, "-capacity, -rest: want times that pass")
	refuse(!(o.Share > 0 && o.Share <= 1), "-share: want more than 0 and at most 1")
	return errors.Join(errs...)
}

func (o *soakOptions) planned() time.Duration { return o.Duration + o.Capacity + 2*o.Rest }

func commandSoak(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseSoak(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		o.Binary, o.Dir = s.binary, s.dir
		r, err := soak.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-soak", args)
		if err := o.publish(s, "bench-soak", r.Markdown(), r.Missed(), stdout); err != nil {
			return err
		}
		if r.Failure != "" {
			return errors.New(r.Failure)
		}
		return nil
	})
}
