// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// Guard has the retries and breakers of one backend. Make one with [New].
type Guard struct {
	opts    Options
	breaker *breaker
	tools   *tools // nil where there is no breaker
	doubted atomic.Bool
	budget  *budget
	pauses  retrypolicy.RetryPolicy[any]

	repeated, overBudget atomic.Uint64
}

// New returns a Guard with a closed breaker and a full budget.
func New(o Options) *Guard {
	o = o.withDefaults()
	g := &Guard{opts: o, breaker: newBreaker(o), budget: newBudget(o.BudgetPercent, o.BudgetBurst)}
	if !o.NoBreaker {
		g.tools = &tools{opts: o}
	}
	builder := retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool {
			var failed *attemptError
			return errors.As(err, &failed) && failed.again
		}).
		WithMaxAttempts(o.MaxAttempts).
		WithJitterFactor(jitter).
		ReturnLastFailure()
	if o.MaxBackoff > o.Backoff {
		builder = builder.WithBackoffFactor(o.Backoff, o.MaxBackoff, backoffFactor)
	} else {
		builder = builder.WithDelay(o.Backoff)
	}
	g.pauses = builder.Build()
	return g
}

// Call describes a call for a Guard.
type Call struct {
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
	// Attempts is told of each attempt before it begins; nil is not.
	Attempts Attempts
}

// Attempts is told of the attempts of a call, on the goroutine of [Do].
type Attempts interface {
	// Begin is called when an attempt begins. The first one is 1.
	Begin(attempt int)
	// Held is called in its place if an open breaker keeps the attempt from the backend.
	Held(attempt int)
}

// attemptError is a failed attempt in the terms of the library.
type attemptError struct {
	again bool
}

// Error implements error. It is not read: the canonical error stands beside it.
func (*attemptError) Error() string { return "resilience: the attempt failed" }

// Do makes a call, and retries it if it failed in transit and may be retried. It
// returns the outcome of the last attempt. There is one exception: if that is
// UNAVAILABLE and an earlier attempt may have reached the backend, it returns the
// outcome of the earlier one. run is called on Do's own goroutine, at least once unless
// the breaker is open. Then the error is UNAVAILABLE with a retry hint.
func Do[T any](ctx context.Context, g *Guard, c Call, run func(context.Context) (T, *errmap.Error)) (T, *errmap.Error) {
	if g == nil {
		return run(ctx)
	}
	g.budget.earn()
	out, err := once(ctx, g, c, 1, run)
	if err == nil || !g.again(ctx, c, err, 1) {
		return out, err
	}
	return repeat(ctx, g, c, run, out, err)
}

// repeat makes the further attempts of a call whose first one failed.
func repeat[T any](ctx context.Context, g *Guard, c Call, run func(context.Context) (T, *errmap.Error), out T, err *errmap.Error) (T, *errmap.Error) {
	attempts := 0
	// The first attempt has been made, and is handed to the policy as it ended. The
	// policy's own error says no more than the last attempt's, or that the caller
	// has left, which the owner of the context knows.
	_ = failsafe.With[any](g.pauses).WithContext(ctx).Run(func() error {
		attempts++
		if attempts == 1 {
			return &attemptError{again: true}
		}
		g.repeated.Add(1)
		now, failed := once(ctx, g, c, attempts, run)
		if failed != nil && errors.Is(failed, errHeld) {
			return &attemptError{} // the first failure says more
		}
		if failed == nil {
			out, err = now, nil
			return nil
		}
		// That this attempt did not arrive does not unsay that an earlier one may have.
		if failed.Code != errmap.Unavailable || err.Code != errmap.TransportError {
			out, err = now, failed
		}
		return &attemptError{again: g.again(ctx, c, failed, attempts)}
	})
	return out, err
}

// once makes one attempt, if the breaker lets it through.
func once[T any](ctx context.Context, g *Guard, c Call, n int, run func(context.Context) (T, *errmap.Error)) (out T, err *errmap.Error) {
	tp, err := g.tools.enter(c.Key)
	if err != nil {
		c.held(n)
		return out, err
	}
	p, err := g.breaker.enter()
	if err != nil {
		g.tools.leave(tp, c.Key, unclear)
		c.held(n)
		return out, err
	}
	c.begin(n)
	said, mark := unclear, g.opts.Clock.Mark() // what a panic leaves behind
	defer func() { g.leave(tp, p, c.Key, said) }()
	if c.Claim != nil {
		deadline, _ := ctx.Deadline()
		c.Claim.begin(g, deadline, n)
	}
	out, err = run(ctx)
	said = c.outcome(err)
	if c.Claim.end() && said == failedOnTheWay {
		said = unclear // it was given up for another connection, which reached the backend
	}
	if said == ranOut && g.opts.Clock.Since(mark) > 0 {
		said = unclear // this process stood still meanwhile: the answer may be unread
	}
	return out, err
}

func (c *Call) begin(n int) {
	if c.Attempts != nil {
		c.Attempts.Begin(n)
	}
}

func (c *Call) held(n int) {
	if c.Attempts != nil {
		c.Attempts.Held(n)
	}
}

// leave counts an outcome. A tool that is closed off raises the question whether the
// backend is there at all.
func (g *Guard) leave(tp toolPermit, p permit, key string, said outcome) {
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
func (c Call) outcome(err *errmap.Error) outcome {
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
func (g *Guard) again(ctx context.Context, c Call, err *errmap.Error, n int) bool {
	if !c.Repeatable || n >= g.opts.MaxAttempts || ctx.Err() != nil {
		return false
	}
	if err.Code != errmap.Unavailable && err.Code != errmap.TransportError || errors.Is(err, errHeld) {
		return false
	}
	if c.Answered != nil && c.Answered() {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= g.opts.pause(n) {
		return false
	}
	if c.Claim.end() {
		return true // and it is paid for
	}
	if !g.budget.spend() {
		g.overBudget.Add(1)
		return false
	}
	return true
}

// Stats are the statistics of a Guard.
type Stats struct {
	// Breaker is the state of the breaker; Closed if there is none.
	Breaker State
	// Opened is the number of times that the breaker opened, Held the number of calls that
	// it rejected.
	Opened, Held uint64
	// Repeated is the number of retries, OverBudget the number of retries that the budget
	// did not allow.
	Repeated, OverBudget uint64
	// Tools are the first 256 tools with an open breaker, MoreTools is the number of
	// others. ToolsOpened is the number of times that such a breaker opened, ToolsHeld the
	// number of calls that they rejected.
	Tools                  []ToolBreaker
	MoreTools              int
	ToolsOpened, ToolsHeld uint64
}

// Stats returns the statistics; they are zero for a nil Guard.
func (g *Guard) Stats() Stats {
	if g == nil {
		return Stats{}
	}
	s := Stats{Repeated: g.repeated.Load(), OverBudget: g.overBudget.Load()}
	if g.breaker != nil {
		s.Breaker = State(g.breaker.state.Load())
		s.Opened, s.Held = g.breaker.opened.Load(), g.breaker.held.Load()
		s.Tools, s.MoreTools = g.tools.notClosed()
		s.ToolsOpened, s.ToolsHeld = g.tools.opened.Load(), g.tools.held.Load()
	}
	return s
}
