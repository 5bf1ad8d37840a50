// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// clockTime is how the log shows the time to a person: the day is known, and
// milliseconds matter.
const clockTime = "15:04:05.000"

// newLogger writes to standard error only: in stdio mode standard output
// belongs to the protocol. "auto" is for people at a terminal and JSON
// elsewhere. The level may be changed while the log is in use.
func newLogger(cfg *configv1.Config, env environment) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(cfg.GetLog().GetLevel())
	if err != nil {
		return nil, level, fmt.Errorf("--log-level: %w", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = encodeMilliseconds
	format := cfg.GetLog().GetFormat()
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "console" || (format != "json" && isTerminal(env.stderr)) {
		encoding.EncodeTime = zapcore.TimeEncoderOfLayout(clockTime)
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		if env.hasColour(env.stderr) {
			encoding.EncodeLevel = zapcore.CapitalColorLevelEncoder
		}
		encoding.ConsoleSeparator = "  "
		encoder = zapcore.NewConsoleEncoder(encoding)
		if isTerminal(env.stderr) {
			encoder = callLines{encoder}
		}
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(visible{env.stderr})), level)
	return zap.New(core), level, nil
}

// callLines shortens the lines of calls to what a person reads at a terminal of 120 columns: tool, outcome, time, edge and
// caller. Lines of failed calls have the level, and so the colour, of a warning. All other facts are in the JSON format.
type callLines struct{ zapcore.Encoder }

// Bounds that keep a line within 120 columns, behind the time, the level and "call".
const (
	callLineTool  = 40
	callLineRunes = 120 - len("15:04:05.000  ERROR  call  ")
)

func (e callLines) Clone() zapcore.Encoder { return callLines{e.Encoder.Clone()} }

func (e callLines) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	if entry.Message != "call" {
		return e.Encoder.EncodeEntry(entry, fields)
	}
	values := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(values)
	}
	text := func(key string) string { s, _ := values.Fields[key].(string); return s }
	outcome := "ok"
	if code := text(logkey.ErrorCode); code != "" {
		outcome = code
		entry.Level = max(entry.Level, zapcore.WarnLevel)
	}
	took, _ := values.Fields["duration_ms"].(time.Duration)
	parts := []string{
		shorten(cmp.Or(text(logkey.CanonicalTool), text(logkey.RequestedTool), "-"), callLineTool), outcome,
		fmt.Sprintf("%.1f ms", float64(took.Microseconds())/1000), text(logkey.Edge),
	}
	for _, key := range []string{logkey.Caller, logkey.ExceptionMessage} {
		if value := text(key); value != "" && value != text(logkey.Edge) { // on stdio, the caller has no other name
			parts = append(parts, value)
		}
	}
	entry.Message = "call  " + shorten(strings.Join(parts, "  "), callLineRunes)
	return e.Encoder.EncodeEntry(entry, nil)
}

// shorten cuts a text to n characters, of which the last then says so. Control characters become spaces: the text goes to a
// terminal as it is, and callers choose names of tools.
func shorten(text string, n int) string {
	runes := []rune(strings.Map(func(r rune) rune { return max(r, ' ') }, text))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

// visible writes lines of the log in which everything can be seen, and which every reader
// ends at the same place: they hold what callers and backends sent.
type visible struct{ to io.Writer }

// Write implements [io.Writer].
func (v visible) Write(line []byte) (int, error) {
	if _, err := v.to.Write(jsontext.Visible(line, 0)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// encodeMilliseconds writes a duration as a number of milliseconds, exact to the
// microsecond. The keys of durations end in _ms.
func encodeMilliseconds(d time.Duration, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendFloat64(float64(d.Microseconds()) / 1000)
}
