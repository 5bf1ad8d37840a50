// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// core writes log lines as log records.
type core struct {
	zapcore.LevelEnabler

	provider otellog.LoggerProvider
	fields   []zapcore.Field
}

func newCore(provider otellog.LoggerProvider, level zapcore.LevelEnabler) zapcore.Core {
	return &core{LevelEnabler: level, provider: provider}
}

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{LevelEnabler: c.LevelEnabler, provider: c.provider, fields: append(slices.Clip(c.fields), fields...)}
}

// Check implements [zapcore.Core].
func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Sync implements [zapcore.Core].
func (*core) Sync() error { return nil }

// Write implements [zapcore.Core].
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var r otellog.Record
	r.SetTimestamp(e.Time)
	r.SetObservedTimestamp(e.Time)
	r.SetSeverity(severity(e.Level))
	r.SetSeverityText(e.Level.CapitalString())
	r.SetBody(attribute.StringValue(e.Message))
	var of trace.SpanContextConfig
	for _, list := range [...][]zapcore.Field{c.fields, fields} {
		for i := range list {
			if !takesContext(&of, &list[i]) {
				r.AddAttributes(attributesOf(&list[i])...)
			}
		}
	}
	c.provider.Logger(scopeOf(e.LoggerName)).Emit(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(of)), r)
	return nil
}

// scopeOf is the instrumentation Scope of a named logger.
func scopeOf(name string) string {
	if name == "" {
		return telemetry.Scope
	}
	return telemetry.Scope + "/" + name
}

func severity(level zapcore.Level) otellog.Severity {
	switch {
	case level < zapcore.InfoLevel:
		return otellog.SeverityDebug
	case level == zapcore.InfoLevel:
		return otellog.SeverityInfo
	case level == zapcore.WarnLevel:
		return otellog.SeverityWarn
	case level == zapcore.ErrorLevel:
		return otellog.SeverityError
	}
	return otellog.SeverityFatal
}

// takesContext reads the ids of the span that a line belongs to.
func takesContext(of *trace.SpanContextConfig, f *zapcore.Field) bool {
	if f.Type != zapcore.StringType {
		return false
	}
	var err error
	switch f.Key {
	case logkey.TraceID: // a field of the record
		of.TraceID, err = trace.TraceIDFromHex(f.String)
	case logkey.SpanID:
		of.SpanID, err = trace.SpanIDFromHex(f.String)
	default:
		return false
	}
	return err == nil
}

// attributesOf are a field as attributes. Durations are milliseconds, as on standard error.
func attributesOf(f *zapcore.Field) []attribute.KeyValue {
	switch f.Type {
	case zapcore.StringType:
		return []attribute.KeyValue{attribute.String(f.Key, f.String)}
	case zapcore.BoolType:
		return []attribute.KeyValue{attribute.Bool(f.Key, f.Integer == 1)}
	case zapcore.Int64Type, zapcore.Int32Type, zapcore.Int16Type, zapcore.Int8Type,
		zapcore.Uint32Type, zapcore.Uint16Type, zapcore.Uint8Type:
		return []attribute.KeyValue{attribute.Int64(f.Key, f.Integer)}
	case zapcore.DurationType:
		return []attribute.KeyValue{attribute.Float64(f.Key, milliseconds(time.Duration(f.Integer)))}
	}
	return encoded(f)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// encoded are the attributes of a field of any type, by zap's own encoder.
func encoded(f *zapcore.Field) []attribute.KeyValue {
	to := zapcore.NewMapObjectEncoder()
	f.AddTo(to)
	out := make([]attribute.KeyValue, 0, len(to.Fields))
	for _, key := range slices.Sorted(maps.Keys(to.Fields)) {
		out = append(out, attributeOf(key, to.Fields[key]))
	}
	return out
}

func attributeOf(key string, value any) attribute.KeyValue {
	switch v := value.(type) {
	case string:
		return attribute.String(key, v)
	case bool:
		return attribute.Bool(key, v)
	case int64:
		return attribute.Int64(key, v)
	case float64:
		return attribute.Float64(key, v)
	case float32:
		return attribute.Float64(key, float64(v))
	case time.Time:
		return attribute.String(key, v.Format(time.RFC3339Nano))
	case time.Duration:
		return attribute.Float64(key, milliseconds(v))
	case []any:
		return attribute.StringSlice(key, texts(v))
	}
	return attribute.String(key, fmt.Sprint(value))
}

func texts(values []any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return out
}
