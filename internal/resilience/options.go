// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"time"

	"github.com/outrigger-mcp/outrigger/internal/stall"
)

// Defaults of Options. The configuration has the same, which a test compares.
const (
	// DefaultMaxAttempts is one call and two repetitions: enough for a backend that
	// restarts one connection, and no flood for one that is down.
	DefaultMaxAttempts = 3
	// DefaultBackoff is longer than a local connection takes to be made, and too
	// short for a person to notice.
	DefaultBackoff = 50 * time.Millisecond
	// DefaultMaxBackoff keeps a call with many attempts from sleeping through its
	// deadline.
	DefaultMaxBackoff = time.Second
	// DefaultBudgetPercent is the share that gRPC and Finagle use.
	DefaultBudgetPercent = 20
	// DefaultBudgetBurst lets a backend that is called seldom be repeated at all.
	DefaultBudgetBurst = 10
	// DefaultFailurePercent, DefaultMinCalls and DefaultWindow open the breaker
	// when half of at least 20 calls within 10 s failed on the way.
	DefaultFailurePercent = 50
	DefaultMinCalls       = 20
	DefaultWindow         = 10 * time.Second
	// DefaultOpenFor is about the time in which a container restarts its process.
	DefaultOpenFor = 2 * time.Second
	// DefaultProbes is one: a backend that answers a call is there.
	DefaultProbes = 1
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
	o.MaxAttempts = orDefault(o.MaxAttempts, DefaultMaxAttempts)
	o.Backoff = orDefault(o.Backoff, DefaultBackoff)
	o.MaxBackoff = max(orDefault(o.MaxBackoff, DefaultMaxBackoff), o.Backoff)
	o.BudgetPercent = orDefault(o.BudgetPercent, DefaultBudgetPercent)
	o.BudgetBurst = orDefault(o.BudgetBurst, DefaultBudgetBurst)
	o.FailurePercent = min(orDefault(o.FailurePercent, DefaultFailurePercent), 100)
	o.MinCalls = orDefault(o.MinCalls, DefaultMinCalls)
	o.Window = orDefault(o.Window, DefaultWindow)
	o.OpenFor = orDefault(o.OpenFor, DefaultOpenFor)
	o.Probes = orDefault(o.Probes, DefaultProbes)
	return o
}

func orDefault[T int | time.Duration](value, def T) T {
	if value > 0 {
		return value
	}
	return def
}

// pause is the longest that the nth pause may be, counted from 1.
func (o Options) pause(n int) time.Duration {
	pause := o.Backoff
	for range n - 1 {
		pause = min(pause*backoffFactor, o.MaxBackoff)
	}
	return pause + time.Duration(float64(pause)*jitter)
}
