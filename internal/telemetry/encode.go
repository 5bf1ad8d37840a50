// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap/zapcore"
)

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
