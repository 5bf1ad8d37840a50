// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/outrigger-mcp/outrigger/internal/metrics"

// newMetrics shows what the parts of the pipeline count.
func (a *app) newMetrics() (*metrics.Metrics, error) {
	return metrics.New(metrics.Sources{
		Begun:    a.bridge.Begun,
		InFlight: a.bridge.Flights().InFlight,
		Catalog:  a.live,
		Events:   a.bus,
		Gate:     a.gate,
		Limiter:  a.limiter,
		Record:   a.record, RecordUnavailable: a.recordUnavailable,
	})
}
