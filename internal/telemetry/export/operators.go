// SPDX-License-Identifier: Apache-2.0

package export

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	stored "github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

func newAudit(audit *trail.Audit) prometheus.Collector {
	type stats = trail.AuditStats
	return newGroup(audit.Stats,
		state("audit_enabled", "1 if there is an audit trail.", func(stats) bool { return audit.IsOn() }),
		state("audit_failing", "1 while lines of the audit trail cannot be written.", func(s stats) bool { return s.Failing }),
		counter("audit_lines_written_total", "Lines written to the audit trail.", func(s stats) uint64 { return s.Written }),
		counter("audit_lines_dropped_total", "Lines lost from the audit trail.", func(s stats) uint64 { return s.Dropped }),
		counter("audit_calls_refused_total", "Invocations rejected because they could not be recorded (--audit-required).", func(s stats) uint64 { return s.Refused }),
		counter("audit_errors_total", "Failed file operations of the audit trail.", func(s stats) uint64 { return s.Errors }),
		counter("audit_rotations_total", "Rotations of the audit trail's file.", func(s stats) uint64 { return s.Rotations }),
		gauge("audit_queued_bytes", "Bytes of the audit trail that wait for the disk.", func(s stats) float64 { return float64(s.Queued) }),
		newMetric("audit_fsync_seconds", "Duration of fsync of the audit trail.", nil, func(s stats, desc *prometheus.Desc, out chan<- prometheus.Metric) {
			buckets := map[float64]uint64{}
			for i, bound := range trail.Buckets() {
				buckets[bound.Seconds()] = s.Syncs.UpTo[i]
			}
			out <- prometheus.MustNewConstHistogram(desc, s.Syncs.Count, s.Syncs.Sum.Seconds(), buckets)
		}),
	)
}

// Reloads is the source of the metrics of files that may change at run time.
type Reloads struct {
	// Status returns the status of each group of files.
	Status func() []reload.Status
	// Refused returns the number of changes in the configuration file that wait for a
	// restart.
	Refused func() int
}

// newReloads shows what came of reading files again.
func newReloads(of *Reloads) prometheus.Collector {
	type groups = []reload.Status
	group := func(name, help string, read func(reload.Status) float64) metric[groups] {
		return gauges(name, help, func(all groups, put func(float64, ...string)) {
			for _, s := range all {
				put(read(s), s.Group)
			}
		}, "files")
	}
	return newGroup(of.Status,
		counters("reloads_total", "Reloads of files, on change or on request, by kind of file and outcome: "+
			"unchanged, applied, partial, refused or deferred.", func(all groups, put func(uint64, ...string)) {
			for _, s := range all {
				for _, o := range reload.Outcomes() {
					put(s.Counts[o], s.Group, o.String())
				}
			}
		}, "files", "outcome"),
		group("reload_good_timestamp_seconds", "Unix time of the last successful load of the content in use.", func(s reload.Status) float64 { return float64(s.Good.UnixNano()) / 1e9 }),
		group("reload_failing", "1 while the files cannot be loaded and older content is in use.", func(s reload.Status) float64 { return oneIf(s.Failing()) }),
		gauge("reload_refused_changes", "Changed fields of the configuration file that need a restart.", func(groups) float64 { return float64(of.Refused()) }),
	)
}

// newDrift shows the difference between the catalog and its lock: none without a
// catalog or a lock.
func newDrift(live *catalog.Live) prometheus.Collector {
	return newGroup(live.Current, gauges("catalog_lock_drift", "Tools that differ from the catalog lock, by change: added, removed or changed.", func(now *catalog.Catalog, put func(float64, ...string)) {
		if now == nil {
			now = new(catalog.Catalog)
		}
		found, _ := now.Drift()
		put(float64(len(found.Added)), "added")
		put(float64(len(found.Removed)), "removed")
		put(float64(len(found.Changed)), "changed")
	}, "change"))
}

// newLists shows what the list of tools that was made last costs its readers.
func newLists(meter *listcost.Meter) prometheus.Collector {
	return newGroup(is(meter),
		gauge("tool_list_bytes", "Size of the newest list of tools for MCP clients; four bytes are about one token. 0 before the first.", func(m *listcost.Meter) float64 { return float64(m.Last().Bytes) }),
		gauge("tool_list_budget_bytes", "Size above which a list of tools causes a warning.", func(m *listcost.Meter) float64 { return float64(m.Budget().InBytes()) }),
		gauges("tool_list_dearest_bytes", "Size of an entry of the newest list of tools, for the ten largest.", func(m *listcost.Meter, put func(float64, ...string)) {
			for _, t := range m.Last().Dearest {
				put(float64(t.Bytes), t.Name)
			}
		}, "tool"),
	)
}

// newTelemetry shows how the exports of OpenTelemetry do, by signal.
func newTelemetry(stats func() []Stats) prometheus.Collector {
	signals := func(name, help string, read func(Stats) float64) metric[[]Stats] {
		return gauges(name, help, func(all []Stats, put func(float64, ...string)) {
			for _, s := range all {
				put(read(s), s.Signal.String())
			}
		}, "signal")
	}
	return newGroup(stats,
		counters("telemetry_exports_total", "Exports to the OpenTelemetry collector, by signal and outcome: ok, partial (some items rejected) or failed.", func(all []Stats, put func(uint64, ...string)) {
			for _, s := range all {
				put(s.Exports, s.Signal.String(), "ok")
				put(s.Partial, s.Signal.String(), "partial")
				put(s.Failures, s.Signal.String(), "failed")
			}
		}, "signal", "outcome"),
		counters("telemetry_items_dropped_total", "Spans, metrics and log records that were not exported, by signal and reason: queue_full or export_failed.", func(all []Stats, put func(uint64, ...string)) {
			for _, s := range all {
				put(s.Overflowed, s.Signal.String(), "queue_full")
				put(s.Lost, s.Signal.String(), "export_failed")
			}
		}, "signal", "reason"),
		signals("telemetry_queued_items", "Spans and log records that wait for export.", func(s Stats) float64 { return float64(s.Items) }),
		signals("telemetry_queued_bytes", "Estimated bytes of the spans and log records that wait for export.", func(s Stats) float64 { return float64(s.Bytes) }),
		signals("telemetry_last_success_timestamp_seconds", "Unix time of the last export that the collector accepted, 0 before the first.", func(s Stats) float64 { return unixSeconds(s.LastSuccess) }),
	)
}

// unixSeconds is a time in milliseconds' resolution; 0 for none.
func unixSeconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
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

func newShared(snapshot func() Shared) prometheus.Collector {
	limits := func(name, help string, read func(stored.Stats) int64) metric[Shared] {
		return gauges(name, help, func(s Shared, put func(float64, ...string)) {
			for _, store := range s.Stores {
				if store.MaxSize > 0 {
					put(float64(read(store)), store.Store)
				}
			}
		}, "store")
	}
	return newGroup(snapshot,
		counters("state_operations_total", "Operations on the shared state, by store and outcome.", func(s Shared, put func(uint64, ...string)) {
			for _, store := range s.Stores {
				for op, ended := range store.Ended {
					for outcome, n := range ended {
						put(n, store.Store, op.String(), outcome.String())
					}
				}
			}
		}, "store", "operation", "outcome"),
		histograms("state_operation_duration_seconds", "Durations of operations on the shared state.", func(s Shared, put func(telemetry.Histogram, ...string)) {
			for _, store := range s.Stores {
				for op, took := range store.Took {
					put(took, store.Store, op.String())
				}
			}
		}, "store", "operation"),
		counters("state_bytes_total", "Bytes written to the shared state and read from it.", func(s Shared, put func(uint64, ...string)) {
			for _, store := range s.Stores {
				put(store.Written, store.Store, "written")
				put(store.Read, store.Store, "read")
			}
		}, "store", "direction"),
		counters("state_changes_total", "Changes of the shared state that this replica heard of.", func(s Shared, put func(uint64, ...string)) {
			for _, store := range s.Stores {
				put(store.Watched, store.Store)
			}
		}, "store"),
		limits("state_stored_bytes", "Size of what is stored, as NATS counts it.", func(s stored.Stats) int64 { return s.Size }),
		limits("state_max_bytes", "Maximum size of what is stored.", func(s stored.Stats) int64 { return s.MaxSize }),
		state("state_available", "Whether the shared state can be used (0 or 1).", func(s Shared) bool { return s.Available }),
		gauge("state_tasks", "Stored tasks of all replicas, as this one knows them.", func(s Shared) float64 { return float64(s.Known.Tasks) }),
		gauge("state_task_bytes", "Size of the stored tasks of all replicas; small ones count 4 KiB.", func(s Shared) float64 { return float64(s.Known.Bytes) }),
		gauge("state_replicas", "Replicas that hold a lease, as this one knows them.", func(s Shared) float64 { return float64(s.Known.Owners) }),
		counter("state_events_lost_total", "Events of the bus that were dropped before this replica read them; its subscribers are told.", func(s Shared) uint64 { return s.EventsLost }),
		counter("task_takeovers_total", "Tasks of replicas that stopped, whose work was run again here.", func(s Shared) uint64 { return s.Tasks.TakenOver }),
		counter("tasks_outcome_unknown_total", "Tasks that ended as failed here, because the outcome of their work is unknown.", func(s Shared) uint64 { return s.Tasks.Unknown }),
		counter("tasks_handed_over_total", "Running tasks that a drain left to other replicas.", func(s Shared) uint64 { return s.Tasks.HandedOver }),
		counter("tasks_lost_total", "Running tasks that were cancelled here, because another replica had taken them over.", func(s Shared) uint64 { return s.Tasks.Lost }),
	)
}
