// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/watch"
)

// collectors are those of the sources that there are.
func (s Sources) collectors() []prometheus.Collector {
	all := []prometheus.Collector{ofRecord(s.Record, s.RecordUnavailable), newAudit(s.Audit)}
	if s.Version != "" {
		all = append(all, ofBuild(s.Version))
	}
	if s.Begun != nil {
		all = append(all, newGroup(s.Begun,
			counter("requests_begun_total", "Requests that entered the pipeline, on all edges.", func(n uint64) uint64 { return n })))
	}
	if s.Repaired != nil {
		all = append(all, newGroup(s.Repaired,
			counter("arguments_repaired_total", "Calls with arguments decoded from strings (--repair-arguments).", func(n uint64) uint64 { return n })))
	}
	if s.Disagreements != nil {
		all = append(all, newGroup(s.Disagreements,
			counter("check_disagreements_total", "Messages on which the validators of --validate full disagreed.", func(n uint64) uint64 { return n })))
	}
	if s.InFlight != nil {
		all = append(all, newGroup(s.InFlight,
			gauge("requests_in_flight", "Requests in flight.", func(n int) float64 { return float64(n) })))
	}
	if s.Catalog != nil {
		all = append(all, ofCatalog(s.Catalog), newDrift(s.Catalog))
	}
	if s.Lists != nil {
		all = append(all, newLists(s.Lists))
	}
	if s.Events != nil {
		all = append(all, ofEvents(s.Events))
	}
	if s.Gate != nil {
		all = append(all, ofTrust(s.Gate))
	}
	if s.Gate != nil || s.Limiter != nil {
		all = append(all, newRefused(s.Gate, s.Limiter))
	}
	if s.Slots != nil {
		all = append(all, newContention(s.Slots), newClasses(s.Slots))
	}
	if s.Traffic != nil {
		all = append(all, newTraffic(s.Traffic))
	}
	if s.CallsSkipped != nil {
		all = append(all, newGroup(s.CallsSkipped,
			counter("log_calls_skipped_total", "Calls not logged because of the log rate limit.", func(n uint64) uint64 { return n })))
	}
	if s.Reloads != nil {
		all = append(all, newReloads(*s.Reloads))
	}
	if s.Authentication != nil {
		all = append(all, newAuthentication(*s.Authentication))
	}
	if s.Identity != nil {
		all = append(all, newIdentity(s.Identity))
	}
	if s.Shared != nil {
		all = append(all, newShared(s.Shared))
	}
	if s.RateService != nil {
		all = append(all, newRateService(s.RateService))
	}
	if s.Telemetry != nil {
		all = append(all, newTelemetry(s.Telemetry))
	}
	if s.Rules != nil {
		all = append(all, newRules(s.Rules))
	}
	if s.Watches != nil {
		all = append(all, newGroup(s.Watches,
			gauge("watches_running", "Streams of the backend that run for watches.", func(s watch.Stats) float64 { return float64(s.Running) }),
			gauge("watch_listeners", "Subscriptions to watches.", func(s watch.Stats) float64 { return float64(s.Listeners) }),
			gauge("watch_bytes", "Bytes of the values that watches keep.", func(s watch.Stats) float64 { return float64(s.Bytes) }),
			counter("watch_restarts_total", "Streams of watches that were opened again after they had ended.", func(s watch.Stats) uint64 { return s.Restarts })))
	}
	if s.Guard != nil {
		all = append(all, ofGuard(s.Guard)...)
	}
	if s.Life != nil {
		all = append(all, ofLife(s.Life))
	}
	if len(s.Limits) > 0 {
		all = append(all, newLimits(s.Limits))
	}
	return all
}

// catalogNow is the catalog and how it is doing.
type catalogNow struct {
	catalog.Status

	tools int
}

func ofCatalog(live *catalog.Live) prometheus.Collector {
	snapshot := func() catalogNow {
		now := catalogNow{Status: live.Status()}
		if c := live.Current(); c != nil {
			now.tools = len(c.Tools())
		}
		return now
	}
	return newGroup(snapshot,
		state("catalog_ready", "1 if a catalog is loaded.", func(n catalogNow) bool { return n.Ready }),
		gauge("catalog_tools", "Tools visible to callers.", func(n catalogNow) float64 { return float64(n.tools) }),
		counter("catalog_loads_total", "Catalog loads started.", func(n catalogNow) uint64 { return uint64(n.Loads) }),
		gauge("catalog_load_failures", "Failed catalog loads since the last success.", func(n catalogNow) float64 { return float64(n.Failures) }),
		gauge("catalog_loaded_timestamp_seconds", "Unix time of the last successful catalog load, 0 before the first.", func(n catalogNow) float64 {
			if n.Loaded.IsZero() {
				return 0
			}
			return float64(n.Loaded.UnixMilli()) / 1000
		}),
	)
}

func ofEvents(bus interface{ Stats() event.Stats }) prometheus.Collector {
	return newGroup(bus.Stats,
		gauge("event_subscribers", "Subscribers of the event bus.", func(s event.Stats) float64 { return float64(s.Subscribers) }),
		counter("event_subscribers_dropped_total", "Slow subscribers that were disconnected.", func(s event.Stats) uint64 { return s.Dropped }),
		counter("events_published_total", "Events published on the event bus.", func(s event.Stats) uint64 { return s.Published }),
		counter("events_queued_total", "Events queued for subscribers, counted once per queue.", func(s event.Stats) uint64 { return s.Queued }),
	)
}

func ofTrust(gate *policy.Gate) prometheus.Collector {
	return newGroup(func() *policy.Gate { return gate },
		state("trusted", "1 while all callers may run destructive tools; callers trusted by address always may.", func(g *policy.Gate) bool { return g.Trust() == policy.Trusted }),
		counter("trust_changes_total", "Changes of the trust state at run time.", (*policy.Gate).Changes),
	)
}

func ofRecord(run *record.Run, unavailable bool) prometheus.Collector {
	type stats = record.Stats
	return newGroup(run.Stats,
		state("record_unavailable", "1 if the directory of run records cannot be used, so that nothing is recorded.", func(stats) bool { return unavailable }),
		state("record_failing", "1 from a failed write of run records until the next successful one.", func(s stats) bool { return s.Failing }),
		counter("record_lines_written_total", "Lines written to run records.", func(s stats) uint64 { return s.Written }),
		counter("record_lines_dropped_total", "Lines lost from run records.", func(s stats) uint64 { return s.Dropped }),
		counter("record_lines_late_total", "Lines written out of arrival order.", func(s stats) uint64 { return s.Late }),
		counter("record_lines_unfinished_total", "Lines written to run records without an outcome.", func(s stats) uint64 { return s.Unfinished }),
		counter("record_errors_total", "Failed file operations of run records.", func(s stats) uint64 { return s.Errors }),
		counter("record_rotations_total", "Rotations of run record files.", func(s stats) uint64 { return s.Rotations }),
		gauge("record_entries_open", "Recorded envelopes without an outcome yet.", func(s stats) float64 { return float64(s.Open) }),
		gauge("record_lines_held", "Lines in the reorder buffer, waiting for an earlier envelope.", func(s stats) float64 { return float64(s.Held) }),
		gauge("record_lines_queued", "Lines queued for the disk.", func(s stats) float64 { return float64(s.Queued) }),
	)
}
