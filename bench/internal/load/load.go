// SPDX-License-Identifier: Apache-2.0

// Package load makes callers call, each the next time as soon as it has its answer, and counts what comes of it within
// a window of time. It knows nothing of protocols. One Run is one figure; runs do not share state.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stuck bounds how long a run may take beyond its own times: the sidecar's timeout of a call is 30 s.
const stuck = 35 * time.Second

// growth is by how much a window grows at a time.
const growth = 50 * time.Millisecond

// Caller makes one call after the other. Call checks the answer; an answer that is not its own is an error.
type Caller interface {
	Call(ctx context.Context) error
}

// Clock reads the CPU time of one process.
type Clock struct {
	Name string
	Read func() (time.Duration, error)
}

// Options say how long to measure and whose CPU time.
type Options struct {
	// Warmup passes between every caller's first answer and the window.
	Warmup time.Duration
	// Window is the time in which calls count. Where fewer than AtLeast were answered in it, it grows until they were or
	// until Longest has passed: a slow server's few calls would be a matter of luck. Zero leaves it as it is.
	Window, Longest time.Duration
	AtLeast         int
	Clocks          []Clock
}

// Sample is what happened within the window.
type Sample struct {
	// Calls were answered within the window, in Elapsed.
	Calls   int
	Elapsed time.Duration
	// Latencies of those calls, sorted.
	Latencies []time.Duration
	// CPU is what each clock advanced.
	CPU map[string]time.Duration
}

// Rate is calls per second.
func (s *Sample) Rate() float64 { return float64(s.Calls) / s.Elapsed.Seconds() }

// CPUPerCall is a clock's advance in microseconds per call.
func (s *Sample) CPUPerCall(clock string) float64 {
	return float64(s.CPU[clock].Nanoseconds()) / 1e3 / float64(s.Calls)
}

// Percentile is the latency that the share p of all calls did not exceed (nearest rank), in microseconds.
func (s *Sample) Percentile(p float64) float64 {
	if len(s.Latencies) == 0 {
		return 0
	}
	rank := int(p*float64(len(s.Latencies))+0.999999) - 1
	rank = min(max(rank, 0), len(s.Latencies)-1)
	return float64(s.Latencies[rank].Nanoseconds()) / 1e3
}

// phase tells the callers where the run is.
type phase = int32

const (
	warming phase = iota
	counting
	over
)

// ErrNoCalls tells that no call was answered within the window.
var ErrNoCalls = errors.New("no call was answered within the window")

// Run lets all callers call at once and returns what it counted. The first error of any caller ends the run and is
// returned. All callers have returned when Run does.
//
// The context that callers see has no deadline, because a deadline travels with each call and would be measured too.
func Run(ctx context.Context, callers []Caller, opts Options) (*Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := opts.Warmup + max(opts.Window, opts.Longest) + stuck
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("calls did not end within %v", limit)) })
	defer watchdog.Stop()

	var (
		now     atomic.Int32
		counted atomic.Int64
		running sync.WaitGroup
		first   sync.WaitGroup
		took    = make([][]time.Duration, len(callers))
	)
	first.Add(len(callers))
	for i, caller := range callers {
		running.Go(func() {
			err := caller.Call(ctx)
			first.Done()
			for err == nil && now.Load() != over {
				start := time.Now()
				err = caller.Call(ctx)
				if now.Load() == counting {
					took[i] = append(took[i], time.Since(start))
					counted.Add(1)
				}
			}
			if err != nil {
				cancel(fmt.Errorf("caller %d: %w", i, err))
			}
		})
	}
	first.Wait()
	sample, err := window(ctx, &now, &counted, opts)
	now.Store(over)
	running.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	sample.Latencies = slices.Concat(took...)
	slices.Sort(sample.Latencies)
	sample.Calls = len(sample.Latencies)
	if sample.Calls == 0 {
		return nil, ErrNoCalls
	}
	return sample, nil
}

// window opens and closes the time in which calls count, and reads the clocks at both ends.
func window(ctx context.Context, now *atomic.Int32, counted *atomic.Int64, opts Options) (*Sample, error) {
	if err := sleep(ctx, opts.Warmup); err != nil {
		return nil, err
	}
	before, err := read(opts.Clocks)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	now.Store(counting)
	if err := sleep(ctx, opts.Window); err != nil {
		return nil, err
	}
	for counted.Load() < int64(opts.AtLeast) && time.Since(start) < opts.Longest {
		if err := sleep(ctx, growth); err != nil {
			return nil, err
		}
	}
	now.Store(over)
	sample := &Sample{Elapsed: time.Since(start), CPU: map[string]time.Duration{}}
	after, err := read(opts.Clocks)
	if err != nil {
		return nil, err
	}
	for i, clock := range opts.Clocks {
		sample.CPU[clock.Name] = after[i] - before[i]
	}
	return sample, nil
}

func read(clocks []Clock) ([]time.Duration, error) {
	times := make([]time.Duration, len(clocks))
	for i, clock := range clocks {
		var err error
		if times[i], err = clock.Read(); err != nil {
			return nil, fmt.Errorf("clock %s: %w", clock.Name, err)
		}
	}
	return times, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
