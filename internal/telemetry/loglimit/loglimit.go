// SPDX-License-Identifier: Apache-2.0

// Package loglimit rate-limits a logger. It is for lines that unauthenticated
// callers can cause, so that they cannot fill a disk or hide other lines. A limited
// logger is safe for concurrent use.
package loglimit

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
)

// PerSecond is the bound for everything that needs no credentials: enough to see
// what is going on.
const PerSecond = 10

// New returns a logger that writes at most PerSecond lines a second, with a burst of
// as many, and drops the rest. All loggers derived from it share the bound.
func New(to *zap.Logger) *zap.Logger {
	limit := rate.NewLimiter(PerSecond, PerSecond)
	return to.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return core{c, limit} }))
}

// core passes on what its limit admits.
type core struct {
	zapcore.Core

	limit *rate.Limiter
}

// With implements [zapcore.Core].
func (c core) With(fields []zapcore.Field) zapcore.Core { return core{c.Core.With(fields), c.limit} }

// Check implements [zapcore.Core].
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || !c.limit.Allow() {
		return checked
	}
	return c.Core.Check(entry, checked)
}
