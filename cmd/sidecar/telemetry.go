// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// openTelemetry starts the exporters, and returns the log that is also exported. Their own
// lines go to standard error only: exporting them would never end.
func (env environment) openTelemetry(ctx context.Context, cfg *configv1.Config, log *zap.Logger, level zap.AtomicLevel) (*export.Telemetry, *zap.Logger, error) {
	own := log.Named("telemetry")
	export.Quiet(own)
	exports, err := export.Open(ctx, export.Options{Settings: env.telemetrySettings(cfg), Version: currentBuild().Version, Log: own})
	if err != nil {
		return nil, nil, err
	}
	if more := exports.LogCore(level); more != nil {
		log = log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, more) }))
	}
	return exports, log, nil
}

// telemetrySettings are what the environment and the configuration say. What is wrong with
// them was reported when the configuration was read.
func (env environment) telemetrySettings(cfg *configv1.Config) *export.Settings {
	return export.Resolve(cfg.GetTelemetry(), env.environ, func(string, string) {})
}
