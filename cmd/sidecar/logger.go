// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// newLogger writes to standard error only: in stdio mode standard output
// belongs to the protocol. "auto" is for people at a terminal and JSON
// elsewhere.
func newLogger(cfg *configv1.Config, stderr io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(orElse(cfg.GetLog().GetLevel(), "info"))
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	format := cfg.GetLog().GetFormat()
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "console" || (format != "json" && isTerminal(stderr)) {
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(stderr)), level)
	return zap.New(core), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
