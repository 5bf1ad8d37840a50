// SPDX-License-Identifier: Apache-2.0

package rateservice

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// warnEvery bounds the warnings of a service that keeps failing and recovering.
const warnEvery = time.Minute

// health logs a service that begins to fail, and its recovery: one line each.
type health struct {
	log *zap.Logger
	// consequence is what a failure means for requests.
	consequence string

	failing  atomic.Bool
	mu       sync.Mutex
	warned   time.Time // zero before the first
	since    time.Time
	failures int
}

// failed is told of a question without an answer.
func (h *health) failed(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failing.Load() || !h.warned.IsZero() && now.Sub(h.warned) < warnEvery {
		return
	}
	h.failing.Store(true)
	h.warned, h.since = now, now
	h.log.Warn("rate limit service failing; "+h.consequence, logkey.Error(err), zap.Int("failures", h.failures))
}

// answered is told of an answer. It takes no lock while all is well.
func (h *health) answered() {
	if !h.failing.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing.Swap(false) {
		h.log.Info("rate limit service answers again", zap.Int("failures", h.failures), zap.Duration("duration_ms", time.Since(h.since)))
		h.failures = 0
	}
}
