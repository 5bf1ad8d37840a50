// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
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
		Share: callerShare(limits),
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
		OnState: a.breakerChanged, OnTool: a.toolBreakerChanged, OnDoubt: func() { wake(a.seek) },
		Clock: a.clock,
	})
}

// breakerChanged passes on what the breaker knows of the backend. It runs within
// a call, and does not wait.
func (a *app) breakerChanged(from, to resilience.State) {
	a.log.Debug("circuit breaker", zap.Stringer("from", from), zap.Stringer("to", to))
	a.backendState(to)
	if to == resilience.Open {
		wake(a.seek)
	}
}

// toolBreakerChanged tells operators of a tool that keeps running out of time. It runs
// within a call, and does not wait. The backend and readiness have no part in it.
func (a *app) toolBreakerChanged(tool string, from, to resilience.State) {
	fields := []zap.Field{zap.String("tool", tool), zap.Stringer("from", from), zap.Stringer("to", to)}
	switch {
	case from == resilience.Closed && to == resilience.Open:
		a.noted.Warn("tool circuit breaker open: calls time out", fields...)
	case to == resilience.Closed:
		a.noted.Info("tool circuit breaker closed", fields...)
	default:
		a.noted.Debug("tool circuit breaker", fields...)
	}
}

// keepTools forgets what is known of tools that a catalog no longer has.
func (a *app) keepTools(now *catalog.Catalog) {
	a.guard.KeepTools(func(key string) bool {
		_, ok := now.Lookup(key)
		return ok || strings.HasPrefix(key, "/") // a question to a native backend
	})
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

// pace bounds the garbage of a large heap, unless the operator has said what there
// may be (GOGC). It returns what ends that.
func pace() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	return memory.Pace()
}

// shed refuses new work while memory is short.
func (a *app) shed() *errmap.Error {
	if !a.memory.Short() {
		return nil
	}
	a.memory.Refused()
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(shedHint),
		errmap.Message("Tool service unavailable: shedding load: memory limit reached (--memory-limit)"))
}

// sparing reads no more of callers' messages while memory is short: a message that
// is half there takes memory, and would be refused when it is whole. Streams carry
// the calls of many, which are refused one by one.
func (a *app) sparing(next http.Handler) http.Handler {
	if a.memory == nil {
		return next
	}
	return &thrifty{app: a, next: next}
}

// thrifty is a handler whose requests are read only while there is memory. Its
// frame is small, because a stream waits on top of it for hours.
type thrifty struct {
	app  *app
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *thrifty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody && !isStream(r) {
		r.Body = &sparingBody{ReadCloser: r.Body, app: h.app}
	}
	h.next.ServeHTTP(w, r)
}

// sparingBody is a body that ends with an error while memory is short.
type sparingBody struct {
	io.ReadCloser

	app *app
}

// Read implements io.Reader. Each edge finds the error in its own vocabulary.
func (b *sparingBody) Read(p []byte) (int, error) {
	if err := b.app.shed(); err != nil {
		return 0, errors.Join(err, errmap.ToConnect(err, errmap.About{}))
	}
	return b.ReadCloser.Read(p)
}
