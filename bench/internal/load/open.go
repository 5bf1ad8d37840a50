// SPDX-License-Identifier: Apache-2.0

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

// maxBehind is for how long calls may be due without a free caller. A machine that others use too may stall for
// seconds; a server that is further behind does not keep the rate.
const maxBehind = 10 * time.Second

// ErrBehind tells that calls were due faster than they were answered.
var ErrBehind = errors.New("the rate is too high: calls wait for a free caller")

// Schedule says when calls are due. It is an open loop: the next call is due whether or not the last was answered, and
// every latency counts from when a call was due, so that a server that stalls is charged for all who had to wait.
type Schedule struct {
	// Rate is in calls per second.
	Rate float64
	// Warmup comes before the window in which calls count.
	Warmup, Window time.Duration
	Clocks         []Clock
	// Wait passes the time until the next call is due; time.Sleep where nil.
	Wait func(time.Duration)
	// Answered, where set, counts answers as they come, those of the warm-up too.
	Answered *atomic.Int64
}

// Open makes calls on a schedule, each by a caller that is free, and returns what it counted: the calls that were due
// within the window, all of which were answered. The first error of any caller ends the run and is returned. All callers
// have returned when Open does.
func Open(ctx context.Context, callers []Caller, s Schedule) (*Sample, error) {
	if s.Wait == nil {
		s.Wait = time.Sleep
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := s.Warmup + s.Window + stuck
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("calls did not end within %v", limit)) })
	defer watchdog.Stop()

	start := time.Now()
	from, to := start.Add(s.Warmup), start.Add(s.Warmup+s.Window)
	var (
		running sync.WaitGroup
		due     = make(chan time.Time, int(s.Rate*maxBehind.Seconds())+1)
		took    = make([][]time.Duration, len(callers))
	)
	for i, caller := range callers {
		running.Go(func() {
			for at := range due {
				if ctx.Err() != nil {
					return
				}
				if err := caller.Call(ctx); err != nil {
					cancel(fmt.Errorf("caller %d: %w", i, err))
					return
				}
				if s.Answered != nil {
					s.Answered.Add(1)
				}
				if !at.Before(from) {
					took[i] = append(took[i], time.Since(at))
				}
			}
		})
	}
	sample, err := s.pace(ctx, due, start, from, to)
	if err != nil {
		cancel(err) // nothing waits for what is in flight
	}
	close(due)
	running.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sample.Latencies = slices.Concat(took...)
	slices.Sort(sample.Latencies)
	sample.Calls = len(sample.Latencies)
	if sample.Calls == 0 {
		return nil, ErrNoCalls
	}
	return sample, nil
}

// pace says when calls are due, until the window is over, and reads the clocks at both of its ends.
func (s *Schedule) pace(ctx context.Context, due chan<- time.Time, start, from, to time.Time) (*Sample, error) {
	sample := &Sample{CPU: map[string]time.Duration{}}
	var before []time.Duration
	interval := time.Duration(float64(time.Second) / s.Rate)
	for at := start; at.Before(to); at = at.Add(interval) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if rest := time.Until(at); rest > 0 {
			s.Wait(rest)
		}
		if before == nil && !at.Before(from) {
			var err error
			if before, err = read(s.Clocks); err != nil {
				return nil, err
			}
			if before == nil {
				before = []time.Duration{}
			}
		}
		select {
		case due <- at:
		default:
			return nil, ErrBehind
		}
	}
	sample.Elapsed = s.Window
	after, err := read(s.Clocks)
	if err != nil {
		return nil, err
	}
	for i, clock := range s.Clocks {
		sample.CPU[clock.Name] = after[i] - before[i]
	}
	return sample, nil
}
