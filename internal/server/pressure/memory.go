// SPDX-License-Identifier: Apache-2.0

// Package pressure sheds load before the process runs out of memory: new work while
// memory is short ([Memory]), and data that waits for slow peers ([Slow]). It also
// releases memory while the process is idle ([KeepSmall]).
package pressure

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/memory"
)

// shedHint is what a caller is told to wait while memory is short: about the time
// in which calls end and a collection shows it.
const shedHint = time.Second

// Memory sheds load while memory is short. Before [Memory.Open], memory is never
// short. Its other methods are safe for concurrent use.
type Memory struct{ guard *memory.Guard }

// Open sets the memory limit of the garbage collector, and creates the guard that
// detects a shortage. wanted is the configured limit, 0 for the environment's.
func (m *Memory) Open(wanted int64, log *zap.Logger) {
	limit, source := memory.Limit(wanted, debug.SetMemoryLimit(-1), os.DirFS("/"))
	if limit <= 0 {
		return
	}
	debug.SetMemoryLimit(limit)
	m.guard = memory.NewGuard(limit)
	log.Info("memory limit", zap.Int64("limit_bytes", limit), zap.String("from", source))
}

// Short reports whether memory is short.
func (m *Memory) Short() bool { return m.guard.Short() }

// Stats returns the statistics of the guard.
func (m *Memory) Stats() memory.Stats { return m.guard.Stats() }

// Run monitors memory until ctx ends.
func (m *Memory) Run(ctx context.Context) { m.guard.Run(ctx) }

// isTight reports that memory gets short.
func (m *Memory) isTight() bool {
	s := m.Stats()
	return s.Limit > 0 && float64(s.Used) >= tightAt*float64(s.Limit)
}

// Pace bounds the garbage of a large heap, unless the operator has said what there
// may be (GOGC). It returns what ends that.
func Pace() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	return memory.Pace()
}

// Shed returns the error for new work while memory is short.
func (m *Memory) Shed() *errmap.Error {
	if !m.guard.Short() {
		return nil
	}
	m.guard.Refused()
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(shedHint),
		errmap.Message("Tool service unavailable: shedding load: memory limit reached (--memory-limit)"))
}
