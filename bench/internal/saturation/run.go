// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
)

// Sample is what happened within a window.
type Sample struct {
	Window time.Duration
	// Answered, Rejected, Errors and Failed count calls by outcome. Unsent were due and found no free connection in time.
	Answered, Rejected, Errors, Failed, Unsent int
	// latencies of the answered, sorted: from when a call was due, or was made where nothing is due.
	latencies []time.Duration
	// CPU is what the watched process used.
	CPU time.Duration
	// late is the end of the last tenth of a second, counted from the start of the window, in which fewer than nine tenths
	// of the due calls were answered.
	late time.Duration
}

// Goodput is answered calls per second.
func (s *Sample) Goodput() float64 { return float64(s.Answered) / s.Window.Seconds() }

// Percentile of the answered calls, nearest rank.
func (s *Sample) Percentile(p float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	rank := min(max(int(p*float64(len(s.latencies))+0.999999)-1, 0), len(s.latencies)-1)
	return s.latencies[rank]
}

// CPUPer is CPU time for each call that was answered in any way.
func (s *Sample) CPUPer() time.Duration {
	if n := s.Answered + s.Rejected + s.Errors; n > 0 {
		return s.CPU / time.Duration(n)
	}
	return 0
}

// window says when calls count.
type window struct {
	warmup, length time.Duration
	// cpu reads the watched process; nil for none.
	cpu func() (time.Duration, error)
}

// clientStats is one client's part of a sample. It is for one goroutine until the run is over.
type clientStats struct {
	by        [failed + 1]int
	unsent    int
	latencies []time.Duration
	// due and inTime count calls by the tenth of a second in which they were due.
	due, inTime []int
}

// dialing is how many connections are opened at a time: the queue of a listener is short.
const dialing = 64

// connect opens the connections of all clients before anything is measured.
func connect(ctx context.Context, clients []*client) {
	var wait sync.WaitGroup
	places := make(chan struct{}, dialing)
	for _, c := range clients {
		places <- struct{}{}
		wait.Go(func() {
			_ = c.dial(ctx) // a call will try again
			<-places
		})
	}
	wait.Wait()
}

// closed lets every client call again as soon as it has its answer.
func closed(ctx context.Context, clients []*client, w window) (*Sample, error) {
	connect(ctx, clients)
	return run(ctx, clients, w, func(ctx context.Context, c *client, t *clientStats, from, to time.Time) error {
		for ctx.Err() == nil {
			start := time.Now()
			if start.After(to) {
				return nil
			}
			got, err := c.call(ctx)
			if err != nil {
				return err
			}
			if end := time.Now(); end.After(from) && !end.After(to) {
				t.count(got, end.Sub(start))
			}
			if got == failed && !pause(ctx, 10*time.Millisecond) {
				return nil // a refused connection is not tried in a busy loop
			}
		}
		return nil
	})
}

// connectionWait is how long a call that is due waits for a free connection.
const connectionWait = 250 * time.Millisecond

// tenth is the resolution of what is counted over time.
const tenth = 100 * time.Millisecond

// open makes calls at a rate, whether or not those before have been answered. What ends within the window counts;
// latencies are from when a call was due.
func open(ctx context.Context, clients []*client, rate float64, w window) (*Sample, error) {
	connect(ctx, clients)
	due := make(chan time.Time, int(rate*2*connectionWait.Seconds())+1)
	var lost atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var pacing sync.WaitGroup
	end := time.Now().Add(w.warmup + w.length)
	pacing.Go(func() {
		defer close(due)
		pace(ctx, due, rate, end, &lost)
	})
	sample, err := run(ctx, clients, w, func(ctx context.Context, c *client, t *clientStats, from, to time.Time) error {
		for at := range due {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the run is over
			}
			if time.Since(at) > connectionWait {
				t.miss(at, from)
				continue
			}
			got, err := c.call(ctx)
			if err != nil {
				return err
			}
			if end := time.Now(); end.After(from) && !end.After(to) {
				t.count(got, end.Sub(at))
			}
			if !at.Before(from) {
				t.inTenth(got == answered, at.Sub(from))
			}
		}
		return nil
	})
	cancel()
	pacing.Wait()
	if sample != nil {
		sample.Unsent += int(lost.Load())
	}
	return sample, err
}

// pace says when calls are due. Where the queue is full, as many are behind as would be given up anyway.
func pace(ctx context.Context, due chan<- time.Time, rate float64, end time.Time, lost *atomic.Int64) {
	interval := time.Duration(float64(time.Second) / rate)
	for at := time.Now(); at.Before(end) && ctx.Err() == nil; at = at.Add(interval) {
		if rest := time.Until(at); rest > 0 {
			proc.Nap(rest)
		}
		select {
		case due <- at:
		default:
			lost.Add(1)
		}
	}
}

// run starts all clients and reads the CPU clock at both ends of the window.
func run(ctx context.Context, clients []*client, w window, each func(context.Context, *client, *clientStats, time.Time, time.Time) error) (*Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := time.Now().Add(w.warmup)
	to := from.Add(w.length)
	stats := make([]clientStats, len(clients))
	var wait sync.WaitGroup
	for i, c := range clients {
		wait.Go(func() {
			if err := each(ctx, c, &stats[i], from, to); err != nil {
				cancel(err)
			}
		})
	}
	sample := &Sample{Window: w.length}
	err := sample.watch(ctx, w, from, to)
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sample.add(stats)
	return sample, err
}

// watch waits for the end of the window.
func (s *Sample) watch(ctx context.Context, w window, from, to time.Time) error {
	var before, after time.Duration
	var err error
	pause(ctx, time.Until(from))
	if w.cpu != nil {
		if before, err = w.cpu(); err != nil {
			return err
		}
	}
	pause(ctx, time.Until(to))
	if w.cpu != nil {
		if after, err = w.cpu(); err != nil {
			return err
		}
	}
	s.CPU = after - before
	return nil
}

// pause reports false when the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *clientStats) count(got outcome, took time.Duration) {
	t.by[got]++
	if got == answered {
		t.latencies = append(t.latencies, took)
	}
}

// miss counts a call that was not sent.
func (t *clientStats) miss(at, from time.Time) {
	if at.Before(from) {
		return
	}
	t.unsent++
	t.inTenth(false, at.Sub(from))
}

func (t *clientStats) inTenth(good bool, since time.Duration) {
	i := int(since / tenth)
	for len(t.due) <= i {
		t.due, t.inTime = append(t.due, 0), append(t.inTime, 0)
	}
	t.due[i]++
	if good {
		t.inTime[i]++
	}
}

// add sums up what the clients counted.
func (s *Sample) add(stats []clientStats) {
	var due, inTime []int
	for i := range stats {
		t := &stats[i]
		s.Answered += t.by[answered]
		s.Rejected += t.by[rejected]
		s.Errors += t.by[toolError]
		s.Failed += t.by[failed]
		s.Unsent += t.unsent
		s.latencies = append(s.latencies, t.latencies...)
		for i := range t.due {
			if len(due) <= i {
				due, inTime = append(due, 0), append(inTime, 0)
			}
			due[i] += t.due[i]
			inTime[i] += t.inTime[i]
		}
	}
	slices.Sort(s.latencies)
	for i := range due {
		if inTime[i]*10 < due[i]*9 {
			s.late = time.Duration(i+1) * tenth
		}
	}
}
