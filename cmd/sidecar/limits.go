// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/policy"
	"github.com/outrigger-mcp/outrigger/bridge/resilience"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/memory"
)

// newSlots returns the places for calls that run at once.
func newSlots(limits *configv1.Limits) *policy.Slots {
	return policy.NewSlots(policy.SlotOptions{
		Most: int(limits.GetMaxConcurrentCalls()), Queued: int(limits.GetMaxQueuedCalls()), Wait: limits.GetMaxQueueWait().AsDuration(),
	})
}

// newGuard returns what stands around the calls of the backend.
func (a *app) newGuard() *resilience.Guard {
	retry, breaker := a.cfg.GetResilience().GetRetry(), a.cfg.GetResilience().GetBreaker()
	return resilience.New(resilience.Options{
		MaxAttempts: int(retry.GetMaxAttempts()),
		Backoff:     retry.GetBackoff().AsDuration(), MaxBackoff: retry.GetMaxBackoff().AsDuration(),
		BudgetPercent: int(retry.GetBudgetPercent()), BudgetBurst: int(retry.GetBudgetBurst()),
		NoBreaker:      breaker.GetMode() == "off",
		FailurePercent: int(breaker.GetFailurePercent()), MinCalls: int(breaker.GetMinCalls()),
		Window: breaker.GetWindow().AsDuration(), OpenFor: breaker.GetOpenFor().AsDuration(), Probes: int(breaker.GetProbes()),
		OnState: a.breakerChanged,
	})
}

// breakerChanged says in the log what the breaker does.
func (a *app) breakerChanged(from, to resilience.State) {
	switch {
	case to == resilience.Open && from == resilience.Closed:
		a.log.Warn("too many calls of the backend failed on the way; it is left alone, and calls are UNAVAILABLE, until it answers again",
			zap.Stringer("breaker", to))
	case to == resilience.Closed:
		a.log.Info("the backend answers again", zap.Stringer("breaker", to))
	default:
		a.log.Debug("breaker", zap.Stringer("from", from), zap.Stringer("to", to))
	}
}

// shedHint is what a caller is told to wait while memory is short: about the time
// in which calls end and a collection shows it.
const shedHint = time.Second

// openMemory tells the collector how much memory there is, and makes the guard
// that knows when it is short.
func (a *app) openMemory() {
	limit, source := memory.Limit(a.cfg.GetLimits().GetMaxMemoryBytes(), debug.SetMemoryLimit(-1), os.DirFS("/"))
	if limit <= 0 {
		return
	}
	debug.SetMemoryLimit(limit)
	a.memory = memory.NewGuard(limit)
	a.log.Info("memory limit", zap.Int64("bytes", limit), zap.String("from", source))
}

// watchMemory looks at the memory until ctx ends.
func (a *app) watchMemory(ctx context.Context) { a.memory.Run(ctx) }

// shed refuses new work while memory is short.
func (a *app) shed() *errmap.Error {
	if !a.memory.Short() {
		return nil
	}
	a.memory.Refused()
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(shedHint),
		errmap.Message("Tool service unavailable: the sidecar is short of memory, so new calls wait outside (--memory-limit)"))
}
