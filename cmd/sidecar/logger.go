// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// newLogger writes to standard error only: in stdio mode standard output
// belongs to the protocol. "auto" is for people at a terminal and JSON
// elsewhere. The level may be changed while the log is in use.
func newLogger(cfg *configv1.Config, stderr io.Writer) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(orElse(cfg.GetLog().GetLevel(), "info"))
	if err != nil {
		return nil, level, fmt.Errorf("--log-level: %w", err)
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
	return zap.New(core), level, nil
}

// newCallLog says which calls leave a line.
func newCallLog(c *configv1.Log) (*bridge.CallLog, error) {
	mode, err := bridge.ParseCallLogMode(orElse(c.GetCalls(), "all"))
	if err != nil {
		return nil, fmt.Errorf("--log-calls: %w", err)
	}
	return bridge.NewCallLog(mode, int(c.GetMaxCallsPerSecond())), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
