// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/streams"
)

// streamsOptions are the flags of the benchmark of streams.
type streamsOptions struct {
	streams.Options
	common

	quick bool
	only  string
}

func parseStreams(args []string, stderr io.Writer) (*streamsOptions, error) {
	o := &streamsOptions{}
	flags := o.flags("bench streams", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of few messages; do not quote its figures")
	flags.IntVar(&o.Rounds, "rounds", 5, "number of rounds")
	flags.IntVar(&o.Streams, "streams", 8, "concurrent streams in the rounds")
	flags.IntVar(&o.Small, "small", 4000, "messages of 200 bytes in each stream")
	flags.IntVar(&o.Large, "large", 1000, "messages of 16 KB in each stream")
	flags.StringVar(&o.only, "only", "", "only these `kinds` of streams: "+strings.Join(streams.Kinds(), ","))
	flags.IntVar(&o.Open, "open", 1000, "streams that are open at the same time for the measure of memory; 0 skips this")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{"rounds": "1", "streams": "2", "small": "100", "large": "20", "open": "50"})
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *streamsOptions) validate(rest []string) error {
	const most = 1_000_000
	if o.only != "" {
		o.Only = strings.Split(o.only, ",")
	}
	for _, kind := range o.Only {
		if !slices.Contains(streams.Kinds(), kind) {
			return fmt.Errorf("-only: %q: want some of %s", kind, strings.Join(streams.Kinds(), ","))
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %s? there are only flags", rest[0])
	case o.Rounds < 1 || o.Small < 1 || o.Large < 1 || o.Small > most || o.Large > most:
		return fmt.Errorf("-rounds, -small, -large: want at least one, and at most %d messages", most)
	case o.Streams < 1 || o.Streams > 100 || o.Open < 0 || o.Open > mostCallers:
		return fmt.Errorf("-streams, -open: want up to 100, and up to %d", mostCallers)
	}
	return nil
}

func (o *streamsOptions) planned() time.Duration {
	// About 50 µs for a small message and 200 for a large one, in eight cells and two subjects.
	each := time.Duration(o.Small)*50*time.Microsecond + time.Duration(o.Large)*200*time.Microsecond
	return time.Duration(o.Rounds*o.Streams)*8*each + 10*time.Second
}

func commandStreams(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseStreams(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		o.Binary, o.Dir = s.binary, s.dir
		r, err := streams.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-streams", args)
		return o.publish(s, "bench-streams", r.Markdown(), r.Missed(), stdout)
	})
}
