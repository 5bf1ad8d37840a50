// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/hex"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// buckets is a histogram as Prometheus wants it: each bucket holds those before. Only
// OpenMetrics shows its exemplars.
func buckets(desc *prometheus.Desc, h stats.Histogram, labels ...string) prometheus.Metric {
	below, n := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		below[seconds(bound)] = n
	}
	made, err := prometheus.NewConstHistogram(desc, h.Count(), seconds(h.Sum), below, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	if len(h.Exemplars) == 0 {
		return made
	}
	with, err := prometheus.NewMetricWithExemplars(made, exemplars(h.Exemplars)...)
	if err != nil {
		return made // the counts are more important
	}
	return with
}

// exemplars names the traces of requests, as OpenTelemetry and Grafana spell them.
func exemplars(all []stats.Exemplar) []prometheus.Exemplar {
	out := make([]prometheus.Exemplar, 0, len(all))
	for _, one := range all {
		out = append(out, prometheus.Exemplar{
			Value: seconds(one.Took), Timestamp: one.At,
			Labels: prometheus.Labels{"trace_id": hex.EncodeToString(one.TraceID[:]), "span_id": hex.EncodeToString(one.SpanID[:])},
		})
	}
	return out
}

// seconds is a duration in Prometheus' unit, with bounds as people write them:
// 0.00025 rather than 0.00025000000000000001.
func seconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e9 }
