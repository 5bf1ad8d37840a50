// SPDX-License-Identifier: Apache-2.0

// Package slogcore writes the sidecar's log to a [log/slog] handler, for programs that
// embed a sidecar and have their own log.
package slogcore

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger that writes to a handler. A nil handler discards.
func New(to slog.Handler) *zap.Logger {
	if to == nil {
		return zap.NewNop()
	}
	return zap.New(&core{to: to})
}

// core is a [zapcore.Core] over a handler.
type core struct{ to slog.Handler }

// Enabled implements [zapcore.LevelEnabler].
func (c *core) Enabled(level zapcore.Level) bool {
	return c.to.Enabled(context.Background(), levelOf(level))
}

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{to: c.to.WithAttrs(attrsOf(fields))}
}

// Check implements [zapcore.Core].
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements [zapcore.Core].
func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(entry.Time, levelOf(entry.Level), entry.Message, 0)
	if entry.LoggerName != "" {
		record.AddAttrs(slog.String("logger", entry.LoggerName))
	}
	record.AddAttrs(attrsOf(fields)...)
	return c.to.Handle(context.Background(), record)
}

// Sync implements [zapcore.Core].
func (c *core) Sync() error { return nil }

// attrsOf are fields as attributes, in their order.
func attrsOf(fields []zapcore.Field) []slog.Attr {
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		object := zapcore.NewMapObjectEncoder()
		f.AddTo(object)
		for _, key := range []string{f.Key, f.Key + "Verbose"} { // errors may have a second form
			if value, ok := object.Fields[key]; ok {
				out = append(out, slog.Any(key, value))
			}
		}
	}
	return out
}

func levelOf(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
