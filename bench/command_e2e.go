// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/e2e"
)

// e2eOptions are the flags of the end-to-end benchmark.
type e2eOptions struct {
	e2e.Options
	common

	quick bool
}

func parseE2E(args []string, stderr io.Writer) (*e2eOptions, error) {
	o := &e2eOptions{}
	var subjects, sizes string
	flags := o.flags("bench e2e", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of short windows, under a minute; do not quote its figures")
	flags.StringVar(&o.Other, "other", "", "also measure this `binary` of the sidecar")
	flags.StringVar(&subjects, "subjects", "", "only these `subjects` of "+strings.Join(e2e.Names(), ",")+"; default all but the floors")
	flags.StringVar(&sizes, "sizes", strings.Join(e2e.SizeNames(), ","), "`payloads`")
	flags.IntVar(&o.Rounds, "rounds", 5, "number of rounds; 0 skips them")
	flags.IntVar(&o.Callers, "callers", 50, "concurrent callers in the rounds")
	flags.IntVar(&o.Crowd, "crowd", 256, "concurrent callers of a separate sidecar after the rounds; 0 skips this")
	flags.DurationVar(&o.Warmup, "warmup", 200*time.Millisecond, "time between every caller's first response and the window")
	flags.DurationVar(&o.Window, "window", time.Second, "time in which calls count")
	flags.DurationVar(&o.Longest, "longest", 4*time.Second, "maximum length of a window with few responses; calls that began in it are always awaited")
	flags.IntVar(&o.AtLeast, "at-least", 100, "minimum calls per window")
	flags.BoolVar(&o.Digits, "digits", true, "check how subjects handle numbers that a double cannot represent")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{"rounds": "1", "callers": "4", "crowd": "16", "warmup": "5ms", "window": "50ms", "longest": "50ms", "at-least": "1"})
	}
	o.Subjects, o.Sizes = list(subjects), list(sizes)
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *e2eOptions) validate(rest []string) error {
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(len(rest) > 0, "what is "+strings.Join(rest, " ")+"? there are only flags")
	refuse(o.Rounds < 0 || o.AtLeast < 0, "-rounds, -at-least: want at least 0")
	refuse(o.Callers < 1 || o.Callers > mostCallers, fmt.Sprintf("-callers: want 1 to %d", mostCallers))
	refuse(o.Crowd < 0 || o.Crowd > mostCallers, fmt.Sprintf("-crowd: want 0 to %d", mostCallers))
	refuse(o.Window <= 0 || o.Warmup < 0 || o.Longest < o.Window, "-window, -warmup, -longest: want times that pass, and no -longest below -window")
	for _, name := range o.Sizes {
		refuse(!slices.Contains(e2e.SizeNames(), name), fmt.Sprintf("-sizes: %q: want some of %s", name, strings.Join(e2e.SizeNames(), ",")))
	}
	errs = append(errs, e2e.CheckSubjects(o.Subjects, o.Other))
	return errors.Join(errs...)
}

// planned is about how long all windows take where every one grows as far as it may, first answers included.
func (o *e2eOptions) planned() time.Duration {
	const firstAnswers = 5 * time.Second // of 50 callers of the slowest server with the largest payload
	subjects := o.Subjects
	if len(subjects) == 0 {
		subjects = e2e.Usual()
	}
	cells := max(len(o.Sizes), 1) * (o.Rounds*len(subjects) + 1)
	return time.Duration(cells) * (o.Longest + o.Warmup + firstAnswers)
}

func commandE2E(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseE2E(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		if o.Other != "" {
			if o.Other, err = absolute("-other", o.Other); err != nil {
				return err
			}
		}
		o.Binary, o.Dir = s.binary, s.dir
		r, err := e2e.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-e2e", args)
		return o.publish(s, "bench-e2e", r.Markdown(), r.Missed(), stdout)
	})
}

// shorten sets flags that the command line does not name.
func shorten(flags *flag.FlagSet, values map[string]string) {
	flags.Visit(func(f *flag.Flag) { delete(values, f.Name) })
	for name, value := range values {
		_ = flags.Set(name, value) // constants, which every parse of a test sets
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
