// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// exportMetrics exports what the metrics page shows.
func (a *App) exportMetrics() error {
	return a.opts.Telemetry.ExportMetrics(export.NewProducer(a.metrics.Gatherer(), a.stats))
}

// telemetryStats returns the counts of the exports; nil without any.
func (a *App) telemetryStats() func() []export.Stats {
	if a.opts.Telemetry == nil {
		return nil
	}
	return a.opts.Telemetry.Stats
}

// leastFlush is how long the last exports may take after a drain that needed its whole
// grace period.
const leastFlush = 500 * time.Millisecond

// closeTelemetry exports what is left, within what is left of the grace period.
func (a *App) closeTelemetry() {
	left := a.cfg.GetLimits().GetDrainGrace().AsDuration()
	if began := a.drainBegan.Load(); began != 0 {
		left -= time.Since(time.Unix(0, began))
	}
	a.opts.Telemetry.Close(max(left, leastFlush))
}
