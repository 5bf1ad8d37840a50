// SPDX-License-Identifier: Apache-2.0

package export

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	stored "github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// auditTrail collects what the audit trail counts.
type auditTrail struct {
	trail   *trail.Audit
	numbers prometheus.Collector
	syncs   *prometheus.Desc
}

func newAudit(audit *trail.Audit) prometheus.Collector {
	type stats = trail.AuditStats
	return auditTrail{
		trail: audit,
		numbers: newGroup(audit.Stats,
			state("audit_enabled", "1 if there is an audit trail.", func(stats) bool { return audit.IsOn() }),
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
	for i, bound := range trail.Buckets() {
		buckets[bound.Seconds()] = s.UpTo[i]
	}
	made, err := prometheus.NewConstHistogram(a.syncs, s.Count, s.Sum.Seconds(), buckets)
	if err != nil {
		made = prometheus.NewInvalidMetric(a.syncs, err)
	}
	out <- made
}

// Reloads is the source of the metrics of files that may change at run time.
type Reloads struct {
	// Status returns the status of each group of files.
	Status func() []reload.Status
	// Refused returns the number of changes in the configuration file that wait for a
	// restart.
	Refused func() int
}

// reloads is a collector of what came of reading files again.
type reloads struct {
	Reloads

	total, good, failing, refused *prometheus.Desc
}

func newReloads(of Reloads) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return reloads{
		Reloads: of,
		total: desc("reloads_total", "Reloads of files, on change or on request, by kind of file and outcome: "+
			"unchanged, applied, partial, refused or deferred.", "files", "outcome"),
		good:    desc("reload_good_timestamp_seconds", "Unix time of the last successful load of the content in use.", "files"),
		failing: desc("reload_failing", "1 while the files cannot be loaded and older content is in use.", "files"),
		refused: desc("reload_refused_changes", "Changed fields of the configuration file that need a restart."),
	}
}

// Describe implements [prometheus.Collector].
func (r reloads) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.total, r.good, r.failing, r.refused} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (r reloads) Collect(out chan<- prometheus.Metric) {
	for _, s := range r.Status() {
		for _, o := range reload.Outcomes() {
			out <- labelled(r.total, prometheus.CounterValue, float64(s.Counts[o]), s.Group, o.String())
		}
		failing := 0.0
		if s.Failing() {
			failing = 1
		}
		out <- labelled(r.good, prometheus.GaugeValue, float64(s.Good.UnixNano())/1e9, s.Group)
		out <- labelled(r.failing, prometheus.GaugeValue, failing, s.Group)
	}
	out <- labelled(r.refused, prometheus.GaugeValue, float64(r.Refused()))
}

// drift is a collector of the difference between the catalog and its lock: none without a
// catalog or a lock.
type drift struct {
	live  *catalog.Live
	tools *prometheus.Desc
}

func newDrift(live *catalog.Live) prometheus.Collector {
	return drift{live: live, tools: prometheus.NewDesc(namespace+"_catalog_lock_drift",
		"Tools that differ from the catalog lock, by change: added, removed or changed.", []string{"change"}, nil)}
}

// Describe implements [prometheus.Collector].
func (d drift) Describe(out chan<- *prometheus.Desc) { out <- d.tools }

// Collect implements [prometheus.Collector].
func (d drift) Collect(out chan<- prometheus.Metric) {
	var found lock.Drift
	if now := d.live.Current(); now != nil {
		found, _ = now.Drift()
	}
	for change, n := range map[string]int{"added": len(found.Added), "removed": len(found.Removed), "changed": len(found.Changed)} {
		out <- labelled(d.tools, prometheus.GaugeValue, float64(n), change)
	}
}

// lists is a collector of what the list of tools that was made last costs its readers.
type lists struct {
	meter                  *listcost.Meter
	bytes, budget, dearest *prometheus.Desc
}

func newLists(meter *listcost.Meter) prometheus.Collector {
	return lists{
		meter: meter,
		bytes: prometheus.NewDesc(namespace+"_tool_list_bytes",
			"Size of the newest list of tools for MCP clients; four bytes are about one token. 0 before the first.", nil, nil),
		budget: prometheus.NewDesc(namespace+"_tool_list_budget_bytes",
			"Size above which a list of tools causes a warning.", nil, nil),
		dearest: prometheus.NewDesc(namespace+"_tool_list_dearest_bytes",
			"Size of an entry of the newest list of tools, for the ten largest.", []string{"tool"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (l lists) Describe(out chan<- *prometheus.Desc) {
	out <- l.bytes
	out <- l.budget
	out <- l.dearest
}

// Collect implements [prometheus.Collector].
func (l lists) Collect(out chan<- prometheus.Metric) {
	last := l.meter.Last()
	out <- prometheus.MustNewConstMetric(l.bytes, prometheus.GaugeValue, float64(last.Bytes))
	out <- prometheus.MustNewConstMetric(l.budget, prometheus.GaugeValue, float64(l.meter.Budget().InBytes()))
	for _, t := range last.Dearest {
		out <- labelled(l.dearest, prometheus.GaugeValue, float64(t.Bytes), t.Name)
	}
}

// exports is a collector of how the exports of OpenTelemetry do, by signal.
type exports struct {
	stats                                   func() []Stats
	exports, dropped, queued, bytes, latest *prometheus.Desc
}

func newTelemetry(stats func() []Stats) prometheus.Collector {
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

// Shared is a snapshot of the state that replicas share.
type Shared struct {
	// Available means that NATS can be used.
	Available bool
	// Stores are the counts of each bucket and stream.
	Stores []stored.Stats
	// Tasks are the counts of this replica, Known the tasks of all replicas.
	Tasks task.Stats
	Known taskstore.Stats
	// EventsLost counts events that this replica never saw.
	EventsLost uint64
}

// shared collects the metrics of stores by their names, and the plain ones of a group.
type shared struct {
	snapshot                      func() Shared
	operations, took, bytes, told *prometheus.Desc
	size, most                    *prometheus.Desc
	plain                         prometheus.Collector
}

func newShared(snapshot func() Shared) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &shared{
		snapshot:   snapshot,
		operations: desc("state_operations_total", "Operations on the shared state, by store and outcome.", "store", "operation", "outcome"),
		took:       desc("state_operation_duration_seconds", "Durations of operations on the shared state.", "store", "operation"),
		bytes:      desc("state_bytes_total", "Bytes written to the shared state and read from it.", "store", "direction"),
		told:       desc("state_changes_total", "Changes of the shared state that this replica heard of.", "store"),
		size:       desc("state_stored_bytes", "Size of what is stored, as NATS counts it.", "store"),
		most:       desc("state_max_bytes", "Maximum size of what is stored.", "store"),
		plain: newGroup(snapshot,
			state("state_available", "Whether the shared state can be used (0 or 1).", func(s Shared) bool { return s.Available }),
			gauge("state_tasks", "Stored tasks of all replicas, as this one knows them.", func(s Shared) float64 { return float64(s.Known.Tasks) }),
			gauge("state_task_bytes", "Size of the stored tasks of all replicas; small ones count 4 KiB.", func(s Shared) float64 { return float64(s.Known.Bytes) }),
			gauge("state_replicas", "Replicas that hold a lease, as this one knows them.", func(s Shared) float64 { return float64(s.Known.Owners) }),
			counter("state_events_lost_total", "Events of the bus that were dropped before this replica read them; its subscribers are told.", func(s Shared) uint64 { return s.EventsLost }),
			counter("task_takeovers_total", "Tasks of replicas that stopped, whose work was run again here.", func(s Shared) uint64 { return s.Tasks.TakenOver }),
			counter("tasks_outcome_unknown_total", "Tasks that ended as failed here, because the outcome of their work is unknown.", func(s Shared) uint64 { return s.Tasks.Unknown }),
			counter("tasks_handed_over_total", "Running tasks that a drain left to other replicas.", func(s Shared) uint64 { return s.Tasks.HandedOver }),
			counter("tasks_lost_total", "Running tasks that were cancelled here, because another replica had taken them over.", func(s Shared) uint64 { return s.Tasks.Lost }),
		),
	}
}

// Describe implements [prometheus.Collector].
func (s *shared) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.operations, s.took, s.bytes, s.told, s.size, s.most} {
		out <- d
	}
	s.plain.Describe(out)
}

// Collect implements [prometheus.Collector].
func (s *shared) Collect(out chan<- prometheus.Metric) {
	for _, store := range s.snapshot().Stores {
		for op, ended := range store.Ended {
			for outcome, n := range ended {
				out <- count(s.operations, n, store.Store, op.String(), outcome.String())
			}
			out <- store.Took[op].Metric(s.took, store.Store, op.String())
		}
		out <- count(s.bytes, store.Written, store.Store, "written")
		out <- count(s.bytes, store.Read, store.Store, "read")
		out <- count(s.told, store.Watched, store.Store)
		if store.MaxSize > 0 {
			out <- labelled(s.size, prometheus.GaugeValue, float64(store.Size), store.Store)
			out <- labelled(s.most, prometheus.GaugeValue, float64(store.MaxSize), store.Store)
		}
	}
	s.plain.Collect(out)
}

// count is a counter with labels.
func count(desc *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return labelled(desc, prometheus.CounterValue, float64(n), labels...)
}
