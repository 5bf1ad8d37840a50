// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	times "golang.org/x/time/rate"
)

// maxHTTPLines bounds the lines a second that net/http may write about broken
// connections: whoever fails to shake hands needs no credentials for it, and must
// not fill a disk.
const maxHTTPLines = 10

// boundedLog is a logger that writes so many lines a second and drops the rest.
func boundedLog(to *zap.Logger) *zap.Logger {
	limit := times.NewLimiter(maxHTTPLines, maxHTTPLines)
	return to.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return boundedCore{core, limit} }))
}

// boundedCore lets through what its limit admits.
type boundedCore struct {
	zapcore.Core

	limit *times.Limiter
}

// With implements [zapcore.Core].
func (c boundedCore) With(fields []zapcore.Field) zapcore.Core {
	return boundedCore{c.Core.With(fields), c.limit}
}

// Check implements [zapcore.Core].
func (c boundedCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || !c.limit.Allow() {
		return checked
	}
	return c.Core.Check(entry, checked)
}
