// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/e2e"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// watchedGoal is by how much the CPU time of a call may grow while operators look on.
const watchedGoal = 1.05

// commandWatched measures the CPU time of small calls with and without an open console, in alternating rounds, at about half of what
// the sidecar can do: two callers, each of which waits for its answers. It fails where the console costs more than its goal.
func commandWatched(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o common
	opts := e2e.Options{
		Subjects: []string{"sidecar", "sidecar-watched"}, Sizes: []string{"small"}, Callers: 2, Warmup: 100 * time.Millisecond,
		Longest: 4 * time.Second, AtLeast: 50,
	}
	flags := o.flags("bench watched", stderr)
	flags.IntVar(&opts.Rounds, "rounds", 7, "number of rounds")
	flags.DurationVar(&opts.Window, "window", 1500*time.Millisecond, "time in which calls count, longer than the interval of the console")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	const build = 2 * time.Minute
	planned := build + attempts*time.Duration(opts.Rounds*len(opts.Subjects))*(opts.Longest+opts.Warmup)
	return o.within(ctx, planned, stderr, func(ctx context.Context, s *site) error {
		opts.Binary, opts.Dir = s.binary, s.dir
		least := 0.0
		for range attempts {
			measured, err := e2e.Measure(ctx, opts, s.say)
			if err != nil {
				return err
			}
			of := measured.Sizes[0].Figures
			ratio := middle(of["sidecar-watched"]) / middle(of["sidecar"])
			if _, err := fmt.Fprintf(stdout, "small calls take %.3f of their CPU time while a console is open (goal: %.2f; medians of %d rounds)\n", ratio, watchedGoal, opts.Rounds); err != nil {
				return err
			}
			if least == 0 || ratio < least {
				least = ratio
			}
			if least <= watchedGoal {
				return nil
			}
		}
		return fmt.Errorf("an open console costs each call %.1f %% of its CPU time: more than %.0f %%", 100*(least-1), 100*(watchedGoal-1))
	})
}

// middle is the median of the CPU times of a call.
func middle(rounds []report.Figure) float64 {
	all := make([]float64, len(rounds))
	for i, one := range rounds {
		all[i] = one.MiddleCPU
	}
	slices.Sort(all)
	return all[len(all)/2]
}
