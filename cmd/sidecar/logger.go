// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// clockTime is how the log shows the time to a person: the day is known, and
// milliseconds matter.
const clockTime = "15:04:05.000"

// newLogger writes to standard error only: in stdio mode standard output
// belongs to the protocol. "auto" is for people at a terminal and JSON
// elsewhere. The level may be changed while the log is in use.
func newLogger(cfg *configv1.Config, env environment) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(settings.OrElse(cfg.GetLog().GetLevel(), "info"))
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
		if env.hasColour() {
			encoding.EncodeLevel = zapcore.CapitalColorLevelEncoder
		}
		encoding.ConsoleSeparator = "  "
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(env.stderr)), level)
	return zap.New(core), level, nil
}

// encodeMilliseconds writes a duration as a number of milliseconds, exact to the
// microsecond. The keys of durations end in _ms.
func encodeMilliseconds(d time.Duration, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendFloat64(float64(d.Microseconds()) / 1000)
}
