// SPDX-License-Identifier: Apache-2.0

// Package load calls a sidecar like several agents at work, with everything that goes wrong in production: bad arguments,
// refused and unknown tools, a burst of slow calls, a tool that hangs, a backend that is down.
//
// It is bounded in callers, rate and time. A run has no goroutines left when it returns.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/rig"
)

const (
	// callers are the steady callers; burst are those that join for the burst of slow calls.
	callers, burst = 8, 56
	// pause is the longest pause of a steady caller between two calls.
	pause = 90 * time.Millisecond
)

// Phases of a run, as parts of its duration. Between them, calls are as usual.
const (
	burstFrom, burstTo = 0.25, 0.40 // more slow calls than fit
	hangFrom, hangTo   = 0.50, 0.62 // one tool hangs
	downFrom, downTo   = 0.72, 0.84 // the backend is down
)

// Run is what a load works on.
type Run struct {
	// URL is the sidecar's main listener.
	URL string
	// Duration is how long it lasts.
	Duration time.Duration
	// Service is the backend, which is taken down for a while; nil leaves it alone.
	Service *rig.Service
	// Tracers make the spans of the agents. Not nil.
	Tracers trace.TracerProvider
}

// Do runs the load and returns how many calls it made.
func (r Run) Do(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	a := newAgents(r.URL, r.Tracers)
	defer a.close()
	began := time.Now()
	at := func() float64 { return float64(time.Since(began)) / float64(r.Duration) }

	var wg sync.WaitGroup
	counts := make([]int, callers+burst)
	for i := range callers {
		wg.Go(func() { counts[i] = a.steady(ctx, rig.Callers()[i%2], at) })
	}
	for i := range burst {
		wg.Go(func() { counts[callers+i] = a.bursting(ctx, at) })
	}
	err := r.interrupt(ctx)
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}

// interrupt takes the backend down and brings it back.
func (r Run) interrupt(ctx context.Context) error {
	part := func(of float64) time.Duration { return time.Duration(of * float64(r.Duration)) }
	if r.Service == nil || !wait(ctx, part(downFrom)) {
		return nil
	}
	if err := r.Service.Down(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	wait(ctx, part(downTo-downFrom))
	if err := r.Service.Up(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// steady makes one call after the other until the context ends.
func (a *agents) steady(ctx context.Context, caller string, at func() float64) int {
	dice := rand.New(rand.NewPCG(1, uint64(len(caller)))) //nolint:gosec // which call comes next is no secret
	n := 0
	for ; ctx.Err() == nil; n++ {
		if now := at(); now > hangFrom && now < hangTo && dice.IntN(4) == 0 {
			a.rpc(ctx, caller, "lab.sleep", `{"duration":"20s"}`)
		} else {
			a.usual(ctx, caller, dice.IntN(20))
		}
		wait(ctx, time.Duration(dice.Int64N(int64(pause))))
	}
	return n
}

// bursting calls a slow tool during the burst.
func (a *agents) bursting(ctx context.Context, at func() float64) int {
	n := 0
	for ctx.Err() == nil {
		if now := at(); now < burstFrom || now > burstTo {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		a.rpc(ctx, "guest", "lab.sleep", `{"duration":"0.4s"}`)
		n++
		wait(ctx, 100*time.Millisecond)
	}
	return n
}

// wait waits, and reports whether the context did not end before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
