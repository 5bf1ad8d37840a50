// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/linefile"
)

// auditTrail collects what the audit trail counts.
type auditTrail struct {
	trail   *audit.Trail
	numbers prometheus.Collector
	syncs   *prometheus.Desc
}

func newAudit(trail *audit.Trail) prometheus.Collector {
	type stats = audit.Stats
	return auditTrail{
		trail: trail,
		numbers: newGroup(trail.Stats,
			state("audit_enabled", "1 if there is an audit trail.", func(stats) bool { return trail.IsOn() }),
			state("audit_failing", "1 while lines of the audit trail cannot be written.", func(s stats) bool { return s.Failing }),
			counter("audit_lines_written_total", "Lines written to the audit trail.", func(s stats) uint64 { return s.Written }),
			counter("audit_lines_dropped_total", "Lines lost from the audit trail.", func(s stats) uint64 { return s.Dropped }),
			counter("audit_calls_refused_total", "Invocations rejected because they could not be recorded (--audit-required).", func(s stats) uint64 { return s.Refused }),
			counter("audit_errors_total", "Failed file operations of the audit trail.", func(s stats) uint64 { return s.Errors }),
			counter("audit_rotations_total", "Rotations of the audit trail's file.", func(s stats) uint64 { return s.Rotations }),
			gauge("audit_queued_bytes", "Bytes of the audit trail that wait for the disk.", func(s stats) float64 { return float64(s.Queued) }),
		),
		syncs: prometheus.NewDesc(namespace+"_audit_fsync_seconds", "Duration of fsync of the audit trail.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (a auditTrail) Describe(out chan<- *prometheus.Desc) {
	a.numbers.Describe(out)
	out <- a.syncs
}

// Collect implements [prometheus.Collector].
func (a auditTrail) Collect(out chan<- prometheus.Metric) {
	a.numbers.Collect(out)
	s := a.trail.Stats().Syncs
	buckets := map[float64]uint64{}
	for i, bound := range linefile.Buckets() {
		buckets[bound.Seconds()] = s.UpTo[i]
	}
	made, err := prometheus.NewConstHistogram(a.syncs, s.Count, s.Sum.Seconds(), buckets)
	if err != nil {
		made = prometheus.NewInvalidMetric(a.syncs, err)
	}
	out <- made
}
