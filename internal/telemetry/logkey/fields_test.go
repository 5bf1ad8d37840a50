// SPDX-License-Identifier: Apache-2.0

package logkey_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

func TestFields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fields []zap.Field
		want   map[string]any
	}{
		"error":       {[]zap.Field{logkey.Error(errors.New("no"))}, map[string]any{"exception.message": "no"}},
		"no error":    {[]zap.Field{logkey.Error(nil)}, map[string]any{}},
		"panic":       {logkey.AppendPanic(nil, 7, []byte("main.go:1")), map[string]any{"exception.message": "7", "exception.stacktrace": "main.go:1"}},
		"IPv4":        {logkey.AppendClient(nil, "192.0.2.1:80"), map[string]any{"client.address": "192.0.2.1", "client.port": uint64(80)}},
		"IPv6":        {logkey.AppendClient(nil, "[2001:db8::1]:443"), map[string]any{"client.address": "2001:db8::1", "client.port": uint64(443)}},
		"no port":     {logkey.AppendClient(nil, "192.0.2.1:x"), map[string]any{"client.address": "192.0.2.1"}},
		"Unix socket": {logkey.AppendClient(nil, "@"), map[string]any{}},
	} {
		got := zapcore.NewMapObjectEncoder()
		for _, f := range tt.fields {
			f.AddTo(got)
		}
		if diff := cmp.Diff(tt.want, got.Fields); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
