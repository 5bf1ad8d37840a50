// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// exports is a collector of how the exports of OpenTelemetry do, by signal.
type exports struct {
	stats                                   func() []telemetry.Stats
	exports, dropped, queued, bytes, latest *prometheus.Desc
}

func newTelemetry(stats func() []telemetry.Stats) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_telemetry_"+name, help, append([]string{"signal"}, labels...), nil)
	}
	return exports{
		stats:   stats,
		exports: desc("exports_total", "Exports to the OpenTelemetry collector, by signal and outcome: ok, partial (some items rejected) or failed.", "outcome"),
		dropped: desc("items_dropped_total", "Spans, metrics and log records that were not exported, by signal and reason: queue_full or export_failed.", "reason"),
		queued:  desc("queued_items", "Spans and log records that wait for export."),
		bytes:   desc("queued_bytes", "Estimated bytes of the spans and log records that wait for export."),
		latest:  desc("last_success_timestamp_seconds", "Unix time of the last export that the collector accepted, 0 before the first."),
	}
}

// Describe implements [prometheus.Collector].
func (e exports) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{e.exports, e.dropped, e.queued, e.bytes, e.latest} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (e exports) Collect(out chan<- prometheus.Metric) {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, s := range e.stats() {
		signal := s.Signal.String()
		out <- labelled(e.exports, counter, float64(s.Exports), signal, "ok")
		out <- labelled(e.exports, counter, float64(s.Partial), signal, "partial")
		out <- labelled(e.exports, counter, float64(s.Failures), signal, "failed")
		out <- labelled(e.dropped, counter, float64(s.Overflowed), signal, "queue_full")
		out <- labelled(e.dropped, counter, float64(s.Lost), signal, "export_failed")
		out <- labelled(e.queued, gauge, float64(s.Items), signal)
		out <- labelled(e.bytes, gauge, float64(s.Bytes), signal)
		latest := float64(0)
		if !s.LastSuccess.IsZero() {
			latest = float64(s.LastSuccess.UnixMilli()) / 1000
		}
		out <- labelled(e.latest, gauge, latest, signal)
	}
}
