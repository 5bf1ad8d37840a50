// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// maxLogLines and maxLogLineBytes bound the lines that a [LogLines] keeps, all together.
	maxLogLines     = 500
	maxLogLineBytes = 256 << 10
	// maxLogLine is the size above which a line is not kept, so that it does not push out all others.
	maxLogLine = 16 << 10
)

// LogLines keeps the last lines of a log as JSON: warnings and errors always, and others while somebody watches. A line that is not
// kept costs nothing. It is safe for concurrent use.
type LogLines struct {
	watchers atomic.Int32

	mu    sync.Mutex
	lines []string // the oldest first
	bytes int
}

// Watch has all lines kept until stop is called for each Watch. Stop may be called more than once.
func (l *LogLines) Watch() (stop func()) {
	l.watchers.Add(1)
	return sync.OnceFunc(func() { l.watchers.Add(-1) })
}

// Of returns a logger that writes as log does, and whose lines are kept as far as log takes them.
func (l *LogLines) Of(log *zap.Logger) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = func(d time.Duration, to zapcore.PrimitiveArrayEncoder) { // as the log itself
		to.AppendFloat64(float64(d.Microseconds()) / 1000)
	}
	encoder := zapcore.NewJSONEncoder(encoding)
	return log.WithOptions(zap.WrapCore(func(to zapcore.Core) zapcore.Core {
		return &keepingCore{Core: to, keeper: &keeper{LevelEnabler: to, encoder: encoder, to: l}}
	}))
}

// About returns the lines that are kept about a request, the oldest first: those with the id of its span, or where they have none
// with that of its trace and its own. An empty id is that of no line.
func (l *LogLines) About(traceID, spanID, requestID string) (lines []string) {
	l.mu.Lock()
	all := l.lines[:len(l.lines):len(l.lines)] // what is kept later goes behind them, or into another array
	l.mu.Unlock()
	for _, text := range all {
		line := map[string]any{}
		if json.Unmarshal([]byte(text), &line) != nil {
			continue
		}
		of := func(key string) string { s, _ := line[key].(string); return s }
		trace, span, request := of(logkey.TraceID), of(logkey.SpanID), of(logkey.RequestID)
		isIt := cmp.Or(traceID, requestID) != "" && trace == traceID && (request == requestID || request == "" && trace != "")
		if span != "" || spanID != "" {
			isIt = span == spanID || span == "" && trace != "" && trace == traceID
		}
		if isIt {
			lines = append(lines, text)
		}
	}
	return lines
}

// keep keeps a line.
func (l *LogLines) keep(line string) {
	if len(line) > maxLogLine {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	l.bytes += len(line)
	for len(l.lines) > maxLogLines || l.bytes > maxLogLineBytes {
		l.bytes -= len(l.lines[0])
		l.lines = l.lines[1:] // append moves the others to a new array in time
	}
}

// keepingCore passes lines on, and to a keeper.
type keepingCore struct {
	zapcore.Core

	keeper *keeper
}

// With implements [zapcore.Core].
func (c *keepingCore) With(fields []zapcore.Field) zapcore.Core {
	encoder := c.keeper.encoder.Clone()
	for i := range fields {
		fields[i].AddTo(encoder)
	}
	to := c.Core.With(fields)
	return &keepingCore{Core: to, keeper: &keeper{LevelEnabler: to, encoder: encoder, to: c.keeper.to}}
}

// Check implements [zapcore.Core].
func (c *keepingCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) && (entry.Level >= zapcore.WarnLevel || c.keeper.to.watchers.Load() > 0) {
		checked = checked.AddCore(entry, c.keeper)
	}
	return c.Core.Check(entry, checked)
}

// keeper is the core that keeps.
type keeper struct {
	zapcore.LevelEnabler

	encoder zapcore.Encoder
	to      *LogLines
}

// With implements [zapcore.Core]. A keeper is within a keepingCore, which makes another one.
func (k *keeper) With([]zapcore.Field) zapcore.Core { return k }

// Check implements [zapcore.Core].
func (k *keeper) Check(_ zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry { return checked }

// Write implements [zapcore.Core].
func (k *keeper) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	var line *buffer.Buffer
	line, err := k.encoder.EncodeEntry(entry, fields)
	if err != nil {
		return err //nolint:wrapcheck // as every core of zap
	}
	line.TrimNewline()
	k.to.keep(string(jsontext.Visible(line.Bytes(), 0)))
	line.Free()
	return nil
}

// Sync implements [zapcore.Core].
func (*keeper) Sync() error { return nil }
