// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
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

// LogQuery says which lines are about a request. Empty ids are those of no line.
type LogQuery struct {
	// TraceID and SpanID are those of its span; without tracing TraceID may be its caller's. RequestID has no JSON quotes.
	TraceID, SpanID, RequestID string
	// Caller and Tool are those of the request. A line that names others is not about it. An empty tool is not compared.
	Caller, Tool string
	// From and Until bound the time of the lines, because other requests have the same id at other times. A zero time is no bound.
	From, Until time.Time
}

// About returns the lines that are kept about a request, the oldest first.
func (l *LogLines) About(q LogQuery) (lines []string) {
	l.mu.Lock()
	all := slices.Clip(l.lines) // what is kept later goes behind them, or into another array
	l.mu.Unlock()
	for _, text := range all {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil && q.matches(&line) {
			lines = append(lines, text)
		}
	}
	return lines
}

// logLine is a line as far as it is needed to choose it. Its keys are those of logkey.
type logLine struct {
	Time      time.Time `json:"ts"`
	TraceID   string    `json:"trace_id"`
	SpanID    string    `json:"span_id"`
	RequestID string    `json:"jsonrpc.request.id"`
	Caller    string    `json:"outrigger.caller"`
	Tool      string    `json:"outrigger.tool.name"`
}

// matches compares the most exact ids that both have.
func (q *LogQuery) matches(l *logLine) bool {
	switch {
	case l.Time.Before(q.From) || !q.Until.IsZero() && l.Time.After(q.Until):
		return false
	case l.Caller != "" && l.Caller != q.Caller, q.Tool != "" && l.Tool != "" && l.Tool != q.Tool:
		return false
	case q.SpanID != "" && l.SpanID != "":
		return l.SpanID == q.SpanID
	case q.TraceID != "" && l.TraceID != "":
		return l.TraceID == q.TraceID && (l.RequestID == "" || l.RequestID == q.RequestID)
	}
	return l.RequestID != "" && l.RequestID == q.RequestID
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
func (k *keeper) Check(_ zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return checked
}

// Write implements [zapcore.Core].
func (k *keeper) Write(entry zapcore.Entry, fields []zapcore.Field) error {
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
