// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/server/webhook"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// namespace begins the names of all metrics that are ours.
const namespace = "outrigger"

// maxScrapes bounds how many scrapes are answered at a time: two Prometheus
// servers for availability, a person with curl, and one that is slow to read.
// More are answered with 503.
const maxScrapes = 4

// Sources are the sources that a scrape reads. A nil source exports no metrics, except
// that a nil record exports a disabled recorder.
type Sources struct {
	// Version is the version of the sidecar; empty exports none.
	Version string
	// Begun returns the number of requests so far. InFlight returns the number of
	// requests that have no response yet.
	Begun    func() uint64
	InFlight func() int
	// Repaired returns the number of calls with arguments that were decoded from strings.
	Repaired func() uint64

	Catalog *catalog.Live
	Events  interface{ Stats() notify.Stats }
	Gate    *policy.Gate
	Limiter *policy.Limiter
	// Slots reports the running and queued calls of each tool and caller. Nil exports
	// nothing.
	Slots  *policy.Slots
	Record *trail.Run
	// Audit is the audit trail, nil without one.
	Audit *trail.Audit
	// RecordUnavailable means that records were enabled, but their directory could not be
	// opened.
	RecordUnavailable bool
	// Watches count the streams behind watches.
	Watches func() notify.WatchStats
	// Guard protects the calls of each backend, by its name; the only one has none. Life is the state of the process.
	Guard map[string]*backend.Guard
	Life  *lifecycle.Machine
	// Balance counts the addresses of each backend that has many, by its name.
	Balance map[string]func() *backend.BalanceStats
	// Limits are the limits of the process. Each has a different name.
	Limits []Limit
	// Traffic counts finished requests.
	Traffic *telemetry.Stats
	// CallsSkipped returns the number of calls that were not logged because there were
	// too many.
	CallsSkipped func() uint64
	// Reloads is the source of the metrics of files that may change at run time.
	Reloads *Reloads
	// Approvals are the calls that wait for approval.
	Approvals *approval.Service
	// Rules are the policy rules.
	Rules *policy.Engine
	// Telemetry returns the counts of the exports of OpenTelemetry; nil without any.
	Telemetry func() []Stats
	// Authentication counts rejected unauthenticated requests.
	Authentication *Authentication
	// Identity counts the credentials that were made in the name of callers; nil without
	// any.
	Identity func() Identity
	// Shared is the state that replicas share; nil without any.
	Shared func() Shared
	// RateService counts the questions to the rate limit service; nil without any.
	RateService func() policy.RateServiceStats
	// Webhooks counts messages about approvals; nil without endpoints.
	Webhooks func() webhook.Stats
	// Lists says what lists of tools cost.
	Lists *listcost.Meter
}

// Page serves scrapes. Nil exports nothing and counts nothing.
type Page struct {
	registry *prometheus.Registry
	breaking prometheus.Counter
	changes  *prometheus.CounterVec
}

// NewPage registers the sources and the metrics of the process in a new registry. It returns
// an error if two of them have the same name.
func NewPage(s Sources) (*Page, error) {
	m := &Page{
		registry: prometheus.NewRegistry(),
		breaking: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "catalog_breaking_changes_total",
			Help: "Breaking schema changes under an unchanged major version of the tool.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "catalog_tool_changes_total",
			Help: "Tools that were added, removed or changed since the first catalog, by change.",
		}, []string{"change"}),
	}
	m.ToolChanges(0, 0, 0) // the series exist from the start
	all := append(s.collectors(), m.breaking, m.changes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var errs []error
	for _, c := range all {
		if c != nil {
			errs = append(errs, m.registry.Register(c))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// BreakingChanges adds n schema changes that break callers.
func (m *Page) BreakingChanges(n int) {
	if m == nil || n <= 0 {
		return
	}
	m.breaking.Add(float64(n))
}

// ToolChanges adds the tools in which a catalog differs from the one before.
func (m *Page) ToolChanges(added, removed, changed int) {
	if m == nil {
		return
	}
	m.changes.WithLabelValues("added").Add(float64(added))
	m.changes.WithLabelValues("removed").Add(float64(removed))
	m.changes.WithLabelValues("changed").Add(float64(changed))
}

// Gatherer returns what the handler reads, for exporters; of nil, nothing.
func (m *Page) Gatherer() prometheus.Gatherer {
	if m == nil {
		return prometheus.Gatherers{}
	}
	return m.registry
}

// Handler returns the handler for scrapes, or nil for nil. It answers in Prometheus'
// text format or in OpenMetrics, as the scraper requests. It does not compress, because
// the listeners do, with the encoders that all of their pages share.
func (m *Page) Handler() http.Handler {
	if m == nil {
		return nil
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: maxScrapes,
	})
}

// collectors are those of the sources that there are; nil for others.
func (s Sources) collectors() []prometheus.Collector {
	same := func(n uint64) uint64 { return n }
	all := []prometheus.Collector{
		ofRecord(s.Record, s.RecordUnavailable), newAudit(s.Audit), newIdentity(s.Identity), newShared(s.Shared), newRateService(s.RateService), newTelemetry(s.Telemetry),
		newGroup(s.Begun, counter("requests_begun_total", "Requests that entered the pipeline, on all edges.", same)),
		newGroup(s.Repaired, counter("arguments_repaired_total", "Calls with arguments decoded from strings (--repair-arguments).", same)),
		newGroup(s.InFlight, gauge("requests_in_flight", "Requests in flight.", func(n int) float64 { return float64(n) })),
		newGroup(s.CallsSkipped, counter("log_calls_skipped_total", "Calls not logged because of the log rate limit.", same)),
		newGroup(s.Watches,
			gauge("watches_running", "Streams of the backend that run for watches.", func(s notify.WatchStats) float64 { return float64(s.Running) }),
			gauge("watch_listeners", "Subscriptions to watches.", func(s notify.WatchStats) float64 { return float64(s.Listeners) }),
			gauge("watch_bytes", "Bytes of the values that watches keep.", func(s notify.WatchStats) float64 { return float64(s.Bytes) }),
			counter("watch_restarts_total", "Streams of watches that were opened again after they had ended.", func(s notify.WatchStats) uint64 { return s.Restarts })),
		newGroup(s.Webhooks,
			counters("approval_webhook_messages_total", "Messages about approvals for webhooks, once for each endpoint, by outcome.", func(s webhook.Stats, put func(uint64, ...string)) {
				put(s.Delivered, "delivered")
				put(s.GivenUp, "given_up")
				put(s.Dropped, "dropped")
			}, "outcome"),
			counter("approval_webhook_failures_total", "Attempts to send such a message that failed.", func(s webhook.Stats) uint64 { return s.Failed }),
			gauge("approval_webhook_messages_queued", "Such messages that wait to be sent.", func(s webhook.Stats) float64 { return float64(s.Queued) })),
	}
	if s.Version != "" {
		all = append(all, ofBuild(s.Version))
	}
	if s.Events != nil {
		all = append(all, ofEvents(s.Events))
	}
	if s.Gate != nil || s.Limiter != nil {
		all = append(all, newRefused(s.Gate, s.Limiter))
	}
	if s.Traffic != nil {
		all = append(all, s.Traffic)
	}
	if len(s.Limits) > 0 {
		all = append(all, newLimits(s.Limits))
	}
	for name, guard := range s.Guard {
		all = append(all, ofGuard(name, guard))
	}
	for name, stats := range s.Balance {
		all = append(all, ofBalance(name, stats))
	}
	return append(all,
		given(s.Catalog, ofCatalog), given(s.Catalog, newDrift), given(s.Lists, newLists), given(s.Gate, ofTrust), given(s.Slots, newContention), given(s.Slots, newClasses),
		given(s.Reloads, newReloads), given(s.Authentication, newAuthentication), given(s.Authentication, newOAuth), given(s.Rules, newRules), given(s.Approvals, newApprovals), given(s.Life, ofLife))
}

// given is the collector of a source, or nil without the source.
func given[T any](source *T, collect func(*T) prometheus.Collector) prometheus.Collector {
	if source == nil {
		return nil
	}
	return collect(source)
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
		gauge("catalog_loaded_timestamp_seconds", "Unix time of the last successful catalog load, 0 before the first.", func(n catalogNow) float64 { return unixSeconds(n.Loaded) }),
	)
}

func ofEvents(bus interface{ Stats() notify.Stats }) prometheus.Collector {
	return newGroup(bus.Stats,
		gauge("event_subscribers", "Subscribers of the event bus.", func(s notify.Stats) float64 { return float64(s.Subscribers) }),
		counter("event_subscribers_dropped_total", "Slow subscribers that were disconnected.", func(s notify.Stats) uint64 { return s.Dropped }),
		counter("events_published_total", "Events published on the event bus.", func(s notify.Stats) uint64 { return s.Published }),
		counter("events_queued_total", "Events queued for subscribers, counted once per queue.", func(s notify.Stats) uint64 { return s.Queued }),
	)
}

func ofTrust(gate *policy.Gate) prometheus.Collector {
	return newGroup(is(gate),
		state("trusted", "1 while all callers may run destructive tools; callers trusted by address always may.", func(g *policy.Gate) bool { return g.Trust() == policy.Trusted }),
		counter("trust_changes_total", "Changes of the trust state at run time.", (*policy.Gate).Changes),
	)
}

func ofRecord(run *trail.Run, unavailable bool) prometheus.Collector {
	type stats = trail.RecordStats
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

// metric is one metric of a snapshot.
type metric[S any] struct {
	desc *prometheus.Desc
	show func(s S, desc *prometheus.Desc, out chan<- prometheus.Metric)
}

// counters are numbers that only grow while the process lives, by labels.
func counters[S any](name, help string, each func(s S, put func(n uint64, labels ...string)), labels ...string) metric[S] {
	return newMetric(name, help, labels, func(s S, desc *prometheus.Desc, out chan<- prometheus.Metric) {
		each(s, func(n uint64, labels ...string) { out <- number(desc, prometheus.CounterValue, float64(n), labels) })
	})
}

// gauges are numbers that go up and down, by labels.
func gauges[S any](name, help string, each func(s S, put func(n float64, labels ...string)), labels ...string) metric[S] {
	return newMetric(name, help, labels, func(s S, desc *prometheus.Desc, out chan<- prometheus.Metric) {
		each(s, func(n float64, labels ...string) { out <- number(desc, prometheus.GaugeValue, n, labels) })
	})
}

// histograms are durations by labels.
func histograms[S any](name, help string, each func(s S, put func(h telemetry.Histogram, labels ...string)), labels ...string) metric[S] {
	return newMetric(name, help, labels, func(s S, desc *prometheus.Desc, out chan<- prometheus.Metric) {
		each(s, func(h telemetry.Histogram, labels ...string) { out <- h.Metric(desc, labels...) })
	})
}

// counter is a number that only grows while the process lives.
func counter[S any](name, help string, read func(S) uint64) metric[S] {
	return counters(name, help, func(s S, put func(uint64, ...string)) { put(read(s)) })
}

// gauge is a number that goes up and down.
func gauge[S any](name, help string, read func(S) float64) metric[S] {
	return gauges(name, help, func(s S, put func(float64, ...string)) { put(read(s)) })
}

// state is a gauge that is 1 where something holds, else 0.
func state[S any](name, help string, read func(S) bool) metric[S] {
	return gauge(name, help, func(s S) float64 { return oneIf(read(s)) })
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// number is one number of a metric. A label that is no text shows as an error of the scrape.
func number(desc *prometheus.Desc, kind prometheus.ValueType, n float64, labels []string) prometheus.Metric {
	made, err := prometheus.NewConstMetric(desc, kind, n, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return made
}

func newMetric[S any](name, help string, labels []string, show func(S, *prometheus.Desc, chan<- prometheus.Metric)) metric[S] {
	return metric[S]{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), show}
}

// group is a collector of what one snapshot holds, so that the numbers of one
// part fit together as well as that part can make them.
type group[S any] struct {
	snapshot func() S
	metrics  []metric[S]
}

// newGroup returns a collector of a group, or nil without a snapshot.
func newGroup[S any](snapshot func() S, metrics ...metric[S]) prometheus.Collector {
	if snapshot == nil {
		return nil
	}
	return group[S]{snapshot, metrics}
}

// is returns a snapshot of what looks up its numbers itself.
func is[S any](source S) func() S { return func() S { return source } }

// Describe implements [prometheus.Collector].
func (g group[S]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range g.metrics {
		out <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (g group[S]) Collect(out chan<- prometheus.Metric) {
	s := g.snapshot()
	for _, m := range g.metrics {
		m.show(s, m.desc, out)
	}
}

// ofBuild shows which binary runs, to be joined with other metrics.
func ofBuild(version string) prometheus.Collector {
	return newGroup(is(version), gauges("build_info", "Always 1; the labels are the version of the sidecar and that of Go.", func(version string, put func(float64, ...string)) {
		put(1, version, runtime.Version())
	}, "version", "go_version"))
}
