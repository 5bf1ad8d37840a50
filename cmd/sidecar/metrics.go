// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/outrigger-mcp/outrigger/internal/metrics"

// newMetrics shows what the parts of the pipeline count.
func (a *app) newMetrics() (*metrics.Metrics, error) {
	return metrics.New(metrics.Sources{
		Begun:    a.bridge.Begun,
		Repaired: a.bridge.Repaired, Disagreements: a.disagreements.Load,
		InFlight: a.bridge.Flights().InFlight,
		Catalog:  a.live,
		Traffic:  a.stats, CallsSkipped: a.calls.Skipped, Reloads: a.reloadMetrics(),
		Door:    a.doorMetrics(),
		Events:  a.bus,
		Gate:    a.gate,
		Limiter: a.limiter,
		Guard:   a.guard, Life: a.life, Limits: a.limitMetrics(),
		Record: a.record, RecordUnavailable: a.recordUnavailable,
	})
}
