// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// defaults is the configuration of telemetry without a file.
func defaults() *configv1.Telemetry { return config.Defaults(config.Serve).GetTelemetry() }

// resolve fails the test on any fault.
func resolve(t *testing.T, cfg *configv1.Telemetry, environ ...string) *export.Settings {
	t.Helper()
	return export.Resolve(cfg, environ, func(at, message string) { t.Errorf("%s: %s", at, message) })
}

// open opens telemetry and returns its log. It is closed at the end of the test, without a last export.
func open(t *testing.T, s *export.Settings) (*export.Telemetry, *observer.ObservedLogs) {
	t.Helper()
	core, lines := observer.New(zap.DebugLevel)
	exports, err := export.Open(context.Background(), export.Options{Settings: s, Version: "1.2.3", Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exports.Close(0) })
	return exports, lines
}

// request makes the span of one request.
func request(t *export.Telemetry, method string) {
	t.Tracer().Start(telemetry.Arrival{Method: method}).End(telemetry.Outcome{})
}

// patience is more than anything here takes.
const patience = time.Minute
