// SPDX-License-Identifier: Apache-2.0

package slogcore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/slogcore"
)

func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slogcore.New(handler).With(zap.String("listener", "main"))
	log.Debug("not shown")
	log.Named("guard").Warn("refused", zap.Int("n", 2), zap.Duration("after", time.Second), zap.Error(errors.New("no")))
	log.Info("ready")
	const want = "level=WARN msg=refused listener=main logger=guard n=2 after=1s error=no\nlevel=INFO msg=ready listener=main\n"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	slogcore.New(nil).Error("discarded")
}
