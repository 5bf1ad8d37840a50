// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// The pauses between questions to a backend that calls are kept from: the first is
// about what a process needs to start, the longest lets no caller wait for seconds once
// it is back, and costs it less than one call a second meanwhile.
const (
	firstSeek   = 250 * time.Millisecond
	longestSeek = time.Second
	seekFactor  = 1.5
)

// Seek asks a backend that calls are kept from whether it is there, until ctx ends,
// and lets calls through as soon as it is: earlier than OpenFor, after which a
// caller's call would have to try, and although such a call may take its time. ask
// makes the smallest call that there is; one is under way at most, and none while
// the breaker is closed, unless a tool was closed off (OnDoubt). opened wakes Seek
// when the breaker has opened, and at a doubt.
//
// A backend that takes calls and does not answer them in time is left alone for all
// of OpenFor: that it answers a question says nothing about calls. Then the
// question takes the place of the call that the breaker lets through, so that a
// process that gets no calls finds out too.
func (g *Guard) Seek(ctx context.Context, opened <-chan struct{}, ask func(context.Context) *errmap.Error) {
	if g == nil || g.breaker == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-opened:
		}
		if g.doubted.Swap(false) {
			g.confirm(ctx, ask)
		}
		for pause := firstSeek; State(g.breaker.state.Load()) != Closed; pause = min(time.Duration(float64(pause)*seekFactor), longestSeek) {
			if !sleep(ctx, min(jittered(pause), g.opts.OpenFor)) {
				return
			}
			g.seek(ctx, ask)
		}
	}
}

// confirmations is how many questions in a row have to stay without an answer before
// a backend that only timed out so far counts as lost.
const confirmations = 2

// confirm asks a backend of which a tool was closed off how it is, and keeps calls
// away where it does not answer.
func (g *Guard) confirm(ctx context.Context, ask func(context.Context) *errmap.Error) {
	for range confirmations {
		mark := g.opts.Clock.Mark()
		if State(g.breaker.state.Load()) != Closed || ask(ctx) == nil || ctx.Err() != nil || g.opts.Clock.Since(mark) > 0 {
			return
		}
		if !sleep(ctx, jittered(firstSeek)) {
			return
		}
	}
	g.breaker.lost()
}

// seek asks once.
func (g *Guard) seek(ctx context.Context, ask func(context.Context) *errmap.Error) {
	b := g.breaker
	if b.hung.Load() {
		if b.policy.RemainingDelay() > 0 {
			return
		}
		_, _ = once(ctx, g, Call{}, 1, func(ctx context.Context) (struct{}, *errmap.Error) { return struct{}{}, ask(ctx) })
		return
	}
	times := b.opened.Load()
	if ask(ctx) == nil {
		b.found(times)
	}
}

// found counts an answer that came while calls were kept away, unless the breaker
// opened anew after the question, of which times is the mark.
func (b *breaker) found(times uint64) {
	b.counting.Lock()
	defer b.counting.Unlock()
	state := State(b.state.Load())
	if state == Closed || b.opened.Load() != times {
		return
	}
	if state == Open {
		b.policy.HalfOpen()
	}
	// Where callers' calls have taken all places, the answer counts beside them.
	_ = b.policy.TryAcquirePermit()
	b.policy.RecordSuccess()
}

// jittered is a pause and up to a quarter more or less.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // a guess gains nothing
}

// sleep waits and reports whether there was time to.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
