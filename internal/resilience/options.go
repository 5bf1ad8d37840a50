// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/stall"
)

const (
	// backoffFactor doubles the pause with each repetition.
	backoffFactor = 2
	// jitter varies a pause by a quarter in both directions, so that callers who
	// failed together do not come back together.
	jitter = 0.25
)

// Options tune a Guard. Zero fields take the defaults of this package.
type Options struct {
	// MaxAttempts is the maximum number of attempts for a retryable call; 1 disables retries.
	MaxAttempts int
	// Backoff is the pause before the first repetition, MaxBackoff the longest.
	Backoff, MaxBackoff time.Duration
	// BudgetPercent is how many repetitions 100 calls pay for, BudgetBurst how
	// many may be saved up.
	BudgetPercent, BudgetBurst int

	// NoBreaker never holds a call back.
	NoBreaker bool
	// FailurePercent of at least MinCalls within Window open the breaker.
	FailurePercent, MinCalls int
	Window                   time.Duration
	// OpenFor is how long it stays open, Probes how many calls have to succeed
	// then.
	OpenFor time.Duration
	Probes  int
	// OnState is told of every change of the breaker's state, by the call that
	// caused it: it must return at once. Nil is not told.
	OnState func(from, to State)
	// OnTool is told of every change of a single tool's state, OnDoubt that one was
	// closed off, so that Seek should ask the backend how it is. Both are called like
	// OnState; nil is not told.
	OnTool  func(key string, from, to State)
	OnDoubt func()
	// Clock knows when this process itself stood still: calls that ran out of time
	// then do not count. Nil never does.
	Clock *stall.Clock
}

func (o Options) withDefaults() Options {
	defaults.Fill(&o.MaxAttempts, defaults.RetryMaxAttempts)
	defaults.Fill(&o.Backoff, defaults.RetryBackoff)
	defaults.Fill(&o.MaxBackoff, defaults.RetryMaxBackoff)
	o.MaxBackoff = max(o.MaxBackoff, o.Backoff)
	defaults.Fill(&o.BudgetPercent, defaults.RetryBudgetPercent)
	defaults.Fill(&o.BudgetBurst, defaults.RetryBudgetBurst)
	defaults.Fill(&o.FailurePercent, defaults.BreakerFailurePercent)
	o.FailurePercent = min(o.FailurePercent, 100)
	defaults.Fill(&o.MinCalls, defaults.BreakerMinCalls)
	defaults.Fill(&o.Window, defaults.BreakerWindow)
	defaults.Fill(&o.OpenFor, defaults.BreakerOpenFor)
	defaults.Fill(&o.Probes, defaults.BreakerProbes)
	return o
}

// pause is the longest that the nth pause may be, counted from 1.
func (o Options) pause(n int) time.Duration {
	pause := o.Backoff
	for range n - 1 {
		pause = min(pause*backoffFactor, o.MaxBackoff)
	}
	return pause + time.Duration(float64(pause)*jitter)
}
