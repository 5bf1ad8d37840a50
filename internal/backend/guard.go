// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Guard has the retries and breakers of one backend. Make one with [NewGuard].
type Guard struct {
	retry   *configv1.Retry
	opts    GuardOptions
	breaker *breaker      // nil where there is none
	tools   *toolBreakers // likewise
	doubted atomic.Bool
	budget  *retryBudget

	repeated, overBudget, full atomic.Uint64
	running                    atomic.Int64
}

// NewGuard returns a Guard with a closed breaker and a full budget. c is complete, as the configuration has it.
func NewGuard(c *configv1.Resilience, o GuardOptions) *Guard {
	g := &Guard{retry: c.GetRetry(), opts: o}
	g.budget = newBudget(int(g.retry.GetBudgetPercent()), int(g.retry.GetBudgetBurst()))
	if breaker := c.GetBreaker(); breaker.GetMode() != "off" {
		g.breaker, g.tools = newBreaker(breaker, &g.opts), &toolBreakers{settings: breaker, opts: &g.opts}
	}
	return g
}

// GuardedCall describes a call for a Guard.
type GuardedCall struct {
	// Key is the tool for which timeouts count. It must not be chosen by the caller. ""
	// counts for none.
	Key string
	// Repeatable means that a second execution is safe.
	Repeatable bool
	// Claim allows the running call to be abandoned for its next attempt; nil does not.
	Claim *Claim
	// Hurried means that the caller's timeout is shorter than the tool's: then a timeout
	// says nothing about the backend.
	Hurried bool
	// Answered reports whether a part of the response has arrived; nil means not before
	// the call ends.
	Answered func() bool
	// Attempts are the spans of the call's attempts; nil without tracing.
	Attempts *telemetry.Calls
}

// DoGuarded makes a call, and retries it if it failed in transit and may be retried. It
// returns the outcome of the last attempt. There is one exception: if that is
// UNAVAILABLE and an earlier attempt may have reached the backend, it returns the
// outcome of the earlier one. run is called on DoGuarded's own goroutine, at least once unless
// the breaker is open. Then the error is UNAVAILABLE with a retry hint.
func DoGuarded[T any](ctx context.Context, g *Guard, c GuardedCall, run func(context.Context) (T, *errmap.Error)) (T, *errmap.Error) {
	if g == nil {
		return run(ctx)
	}
	if g.opts.MaxCalls > 0 {
		n := g.running.Add(1)
		defer g.giveCall()
		if bound := g.takeCall(n); bound != "" {
			g.full.Add(1)
			var none T
			return none, errmap.New(errmap.Unavailable, errmap.RetryAfter(g.retry.GetMaxBackoff().AsDuration()), errmap.Messagef(
				"Tool service unavailable: %d calls of its backend are running (%s)", n-1, bound))
		}
	}
	g.budget.earn()
	out, err := onceGuarded(ctx, g, c, 1, run)
	if err == nil || !g.again(ctx, c, err, 1) {
		return out, err
	}
	return repeatGuarded(ctx, g, c, run, out, err)
}

// takeCall is empty if the nth call at once has room: in what is the backend's alone, or in what is left of the rest. Otherwise it
// is the setting that bounds it. Each call between OwnCalls and MaxCalls takes one of the rest, also one that is refused, and
// giveCall gives it back. Those above take none, so that a backend that is flooded takes nothing from the others.
func (g *Guard) takeCall(n int64) (bound string) {
	switch {
	case n > int64(g.opts.MaxCalls):
		return "backends[].limits.max_concurrent_calls"
	case g.isShared(n) && g.opts.SharedCalls.Add(-1) < 0:
		return "limits.max_concurrent_calls: other backends have the rest"
	}
	return ""
}

func (g *Guard) giveCall() {
	if n := g.running.Add(-1) + 1; g.isShared(n) {
		g.opts.SharedCalls.Add(1)
	}
}

// isShared reports whether the nth call at once is one of those that all backends share.
func (g *Guard) isShared(n int64) bool {
	return g.opts.SharedCalls != nil && n > int64(g.opts.OwnCalls) && n <= int64(g.opts.MaxCalls)
}

// repeatGuarded makes the further attempts of a call whose first one failed.
func repeatGuarded[T any](ctx context.Context, g *Guard, c GuardedCall, run func(context.Context) (T, *errmap.Error), out T, err *errmap.Error) (T, *errmap.Error) {
	for n := 2; sleep(ctx, jittered(g.backoff(n-1))); n++ {
		g.repeated.Add(1)
		now, failed := onceGuarded(ctx, g, c, n, run)
		switch {
		case failed == nil:
			return now, nil
		case errors.Is(failed, errHeld):
			return out, err // the first failure says more
		}
		// That this attempt did not arrive does not unsay that an earlier one may have.
		if failed.Code != errmap.Unavailable || err.Code != errmap.TransportError {
			out, err = now, failed
		}
		if !g.again(ctx, c, failed, n) {
			break
		}
	}
	return out, err
}

// onceGuarded makes one attempt, if the breaker lets it through.
func onceGuarded[T any](ctx context.Context, g *Guard, c GuardedCall, n int, run func(context.Context) (T, *errmap.Error)) (out T, err *errmap.Error) {
	tp, err := g.tools.enter(c.Key)
	if err != nil {
		c.Attempts.Held(n)
		return out, err
	}
	p, err := g.breaker.enter()
	if err != nil {
		g.tools.leave(tp, c.Key, unclear)
		c.Attempts.Held(n)
		return out, err
	}
	c.Attempts.Begin(n)
	said, mark := unclear, g.opts.Clock.Mark() // what a panic leaves behind
	defer func() { g.leave(tp, p, c.Key, said) }()
	if c.Claim != nil {
		deadline, _ := ctx.Deadline()
		c.Claim.beginAttempt(g, deadline, n)
	}
	if c.Hurried {
		ctx = context.WithValue(ctx, hurriedKey{}, true)
	}
	out, err = run(ctx)
	said = c.outcome(err)
	if c.Claim.wasGivenUp() && said == failedOnTheWay {
		said = unclear // it was given up for another connection, which reached the backend
	}
	if said == ranOut && g.opts.Clock.Since(mark) > 0 {
		said = unclear // this process stood still meanwhile: the answer may be unread
	}
	return out, err
}

// hurriedKey is the context key of GuardedCall.Hurried.
type hurriedKey struct{}

// leave counts an outcome. A tool that is closed off raises the question whether the
// backend is there at all.
func (g *Guard) leave(tp, p permit, key string, said guardOutcome) {
	g.breaker.leave(p, key, said)
	if g.tools.leave(tp, key, said) && g.opts.OnDoubt != nil {
		g.doubted.Store(true)
		g.opts.OnDoubt()
	}
}

// KeepTools drops the state of tools that no longer exist.
func (g *Guard) KeepTools(exists func(key string) bool) {
	if g != nil && g.tools != nil {
		g.tools.keep(exists)
	}
}

// outcome is what the end of an attempt says about the backend.
func (c GuardedCall) outcome(err *errmap.Error) guardOutcome {
	if err == nil {
		return answered
	}
	switch err.Code { //nolint:exhaustive // every other code is an answer of the backend, or of what reads it
	case errmap.Unavailable, errmap.TransportError:
		return failedOnTheWay
	case errmap.Timeout:
		if c.Hurried {
			return unclear
		}
		return ranOut
	case errmap.Cancelled, errmap.PayloadTooLarge, errmap.InternalError:
		return unclear // nothing was sent, or the caller had gone
	}
	return answered
}

// again reports whether a call that has failed n times is sent once more, and
// pays for it.
func (g *Guard) again(ctx context.Context, c GuardedCall, err *errmap.Error, n int) bool {
	if !c.Repeatable || n >= int(g.retry.GetMaxAttempts()) || ctx.Err() != nil {
		return false
	}
	if err.Code != errmap.Unavailable && err.Code != errmap.TransportError || errors.Is(err, errHeld) {
		return false
	}
	if c.Answered != nil && c.Answered() {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= g.pause(n) {
		return false
	}
	if c.Claim.wasGivenUp() {
		return true // and it is paid for
	}
	if !g.budget.spend() {
		g.overBudget.Add(1)
		return false
	}
	return true
}

// GuardStats are the statistics of a Guard.
type GuardStats struct {
	// Breaker is the state of the breaker; Closed if there is none.
	Breaker BreakerState
	// Opened is the number of times that the breaker opened, Held the number of calls that
	// it rejected.
	Opened, Held uint64
	// Repeated is the number of retries, OverBudget the number of retries that the budget
	// did not allow.
	Repeated, OverBudget uint64
	// Running is the number of calls under way, Full the number of those that found GuardOptions.MaxCalls others; both are zero without
	// that bound.
	Running int64
	Full    uint64
	// Tools are the first 256 tools with an open breaker, MoreTools is the number of
	// others. ToolsOpened is the number of times that such a breaker opened, ToolsHeld the
	// number of calls that they rejected.
	Tools                  []ToolBreaker
	MoreTools              int
	ToolsOpened, ToolsHeld uint64
}

// Stats returns the statistics; they are zero for a nil Guard.
func (g *Guard) Stats() GuardStats {
	if g == nil {
		return GuardStats{}
	}
	s := GuardStats{Repeated: g.repeated.Load(), OverBudget: g.overBudget.Load(), Running: g.running.Load(), Full: g.full.Load()}
	if g.breaker != nil {
		s.Breaker = g.breaker.now()
		s.Opened, s.Held = g.breaker.opened.Load(), g.breaker.held.Load()
		s.Tools, s.MoreTools = g.tools.notClosed()
		s.ToolsOpened, s.ToolsHeld = g.tools.opened.Load(), g.tools.held.Load()
	}
	return s
}

const (
	// backoffFactor doubles the pause with each repetition.
	backoffFactor = 2
	// jitter varies a pause by a quarter in both directions, so that callers who
	// failed together do not come back together.
	jitter = 0.25
)

// GuardOptions are what a Guard has of its process. The zero value is enough.
type GuardOptions struct {
	// OnState is called on every change of the breaker's state, by the call that caused
	// it: it must return at once. It may be nil.
	OnState func(from, to BreakerState)
	// OnTool is called on every change of a tool's breaker. OnDoubt is called when one
	// opens, so that Seek checks the backend's health. Both are called like OnState and
	// may be nil.
	OnTool  func(key string, from, to BreakerState)
	OnDoubt func()
	// Clock detects stalls of this process: timeouts during a stall do not count. Nil
	// detects none.
	Clock *peer.Clock
	// MaxCalls is how many calls may be under way; further ones are UNAVAILABLE at once. 0 bounds none.
	MaxCalls int
	// OwnCalls of them are this backend's alone. SharedCalls counts what is left for the others of all backends; nil bounds
	// none.
	OwnCalls    int
	SharedCalls *atomic.Int64
}

// backoff is the nth pause, counted from 1, before it is jittered.
func (g *Guard) backoff(n int) time.Duration {
	pause := g.retry.GetBackoff().AsDuration()
	for range n - 1 {
		pause = max(pause, min(pause*backoffFactor, g.retry.GetMaxBackoff().AsDuration()))
	}
	return pause
}

// pause is the longest that the nth pause may be.
func (g *Guard) pause(n int) time.Duration {
	return g.backoff(n) + time.Duration(float64(g.backoff(n))*jitter)
}

// Claim lets a running attempt be abandoned in favor of a retry. Code that finds during
// a call that its connection is probably dead asks for it. Without a claim, abandoning
// the call would turn a late response into a failure, because nothing would retry it.
// The zero value grants nothing; [DoGuarded] sets it.
type Claim struct {
	guard    *Guard
	deadline time.Time
	left     atomic.Int32 // attempts that may follow
	paused   time.Duration
	taken    atomic.Bool
	last     atomic.Pointer[string] // of a backend with many addresses: the one that the last attempt went to
}

// Claim reserves the next attempt, takes it from the budget, and reports whether that
// succeeded.
func (c *Claim) Claim() bool {
	switch {
	case c.taken.Load():
		return true
	case c.left.Load() <= 0, !c.deadline.IsZero() && time.Until(c.deadline) <= c.paused, !c.guard.budget.spend():
		return false
	}
	c.taken.Store(true)
	return true
}

// beginAttempt readies the claim for attempt n, counted from 1.
func (c *Claim) beginAttempt(g *Guard, deadline time.Time, n int) {
	if c == nil {
		return
	}
	c.guard, c.deadline, c.paused = g, deadline, g.pause(n)
	c.taken.Store(false)
	c.left.Store(g.retry.GetMaxAttempts() - int32(n))
}

// wasGivenUp reports whether the attempt was given up by claim.
func (c *Claim) wasGivenUp() bool {
	if c == nil {
		return false
	}
	c.left.Store(0)
	return c.taken.Load()
}

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
		for pause := firstSeek; g.breaker.now() != BreakerClosed; pause = min(time.Duration(float64(pause)*seekFactor), longestSeek) {
			if !sleep(ctx, min(jittered(pause), g.breaker.openFor())) {
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
		if g.breaker.now() != BreakerClosed || ask(ctx) == nil || ctx.Err() != nil || g.opts.Clock.Since(mark) > 0 {
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
		if b.isEarly() {
			return
		}
		_, _ = onceGuarded(ctx, g, GuardedCall{}, 1, func(ctx context.Context) (struct{}, *errmap.Error) { return struct{}{}, ask(ctx) })
		return
	}
	times := b.opened.Load()
	if ask(ctx) == nil {
		b.found(times)
	}
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
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
