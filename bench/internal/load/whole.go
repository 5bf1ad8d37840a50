// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// wholeStuck bounds how long a run of [Whole] may take beyond its own times: 256 large calls of a slow server take a
// minute on a machine that others use too.
const wholeStuck = 3 * time.Minute

// Whole is like [Run], but counts whole calls: the clocks are read while no call is in flight, before the first call that
// counts begins and after the last one that began within the window was answered. CPU per call is exact that way even
// where a call takes longer than the window; the rate includes the end, when fewer and fewer are in flight.
//
// Calls begin until the window has passed and AtLeast were answered, or Longest has passed.
func Whole(ctx context.Context, callers []Caller, opts Options) (*Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := opts.Warmup + max(opts.Window, opts.Longest) + wholeStuck
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("calls did not end within %v", limit)) })
	defer watchdog.Stop()

	warm := func(began time.Time, _ int64) bool { return time.Since(began) >= opts.Warmup }
	if _, err := stage(ctx, cancel, callers, warm); err != nil {
		return nil, err
	}
	before, err := read(opts.Clocks)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	took, err := stage(ctx, cancel, callers, func(began time.Time, answered int64) bool {
		since := time.Since(began)
		return since >= opts.Window && (answered >= int64(opts.AtLeast) || since >= opts.Longest)
	})
	if err != nil {
		return nil, err
	}
	sample := &Sample{Elapsed: time.Since(start), CPU: map[string]time.Duration{}, Latencies: took, Calls: len(took)}
	after, err := read(opts.Clocks)
	if err != nil {
		return nil, err
	}
	for i, clock := range opts.Clocks {
		sample.CPU[clock.Name] = after[i] - before[i]
	}
	return sample, nil
}

// stage lets every caller call once and then again until enough says so, and returns how long each call took, sorted,
// when all are answered.
func stage(ctx context.Context, cancel context.CancelCauseFunc, callers []Caller, enough func(began time.Time, answered int64) bool) ([]time.Duration, error) {
	var (
		began    = time.Now()
		answered atomic.Int64
		running  sync.WaitGroup
		took     = make([][]time.Duration, len(callers))
	)
	for i, caller := range callers {
		running.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				if err := caller.Call(ctx); err != nil {
					cancel(fmt.Errorf("caller %d: %w", i, err))
					return
				}
				took[i] = append(took[i], time.Since(start))
				if enough(began, answered.Add(1)) {
					return
				}
			}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := slices.Concat(took...)
	slices.Sort(out)
	return out, nil
}
