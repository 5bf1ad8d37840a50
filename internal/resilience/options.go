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

// Options configure a Guard. Zero fields have the defaults of this package.
type Options struct {
	// MaxAttempts is the maximum number of attempts for a retryable call; 1 disables retries.
	MaxAttempts int
	// Backoff is the pause before the first retry, MaxBackoff the longest pause.
	Backoff, MaxBackoff time.Duration
	// BudgetPercent is the number of retries per 100 calls, BudgetBurst the number that
	// can be saved up.
	BudgetPercent, BudgetBurst int

	// NoBreaker disables the circuit breaker.
	NoBreaker bool
	// FailurePercent of at least MinCalls within Window opens the breaker.
	FailurePercent, MinCalls int
	Window                   time.Duration
	// OpenFor is the time that the breaker stays open, Probes the number of calls that
	// must then succeed.
	OpenFor time.Duration
	Probes  int
	// OnState is called on every change of the breaker's state, by the call that caused
	// it: it must return at once. It may be nil.
	OnState func(from, to State)
	// OnTool is called on every change of a tool's breaker. OnDoubt is called when one
	// opens, so that Seek checks the backend's health. Both are called like OnState and
	// may be nil.
	OnTool  func(key string, from, to State)
	OnDoubt func()
	// Clock detects stalls of this process: timeouts during a stall do not count. Nil
	// detects none.
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
