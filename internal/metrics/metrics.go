// SPDX-License-Identifier: Apache-2.0

// Package metrics exports the counters of the process to Prometheus.
//
// The parts of the pipeline count for themselves, and a scrape reads their
// counters. So without scrapes, the package does nothing.
//
// It keeps no counters of other packages and starts no goroutine. Everything is safe
// for concurrent use, if the sources are.
package metrics

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/listcost"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/rules"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/watch"
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
	// Disagreements returns how many times two checks of one message disagreed.
	Repaired, Disagreements func() uint64

	Catalog *catalog.Live
	Events  interface{ Stats() event.Stats }
	Gate    *policy.Gate
	Limiter *policy.Limiter
	// Slots reports the running and queued calls of each tool and caller. Nil exports
	// nothing.
	Slots  *policy.Slots
	Record *record.Run
	// Audit is the audit trail, nil without one.
	Audit *audit.Trail
	// RecordUnavailable means that records were enabled, but their directory could not be
	// opened.
	RecordUnavailable bool
	// Watches count the streams behind watches.
	Watches func() watch.Stats
	// Guard protects the calls of the backend. Life is the state of the process.
	Guard *resilience.Guard
	Life  *lifecycle.Machine
	// Limits are the limits of the process. Each has a different name.
	Limits []Limit
	// Traffic counts finished requests.
	Traffic *stats.Stats
	// CallsSkipped returns the number of calls that were not logged because there were
	// too many.
	CallsSkipped func() uint64
	// Reloads is the source of the metrics of files that may change at run time.
	Reloads *Reloads
	// Rules are the policy rules.
	Rules *rules.Engine
	// Telemetry returns the counts of the exports of OpenTelemetry; nil without any.
	Telemetry func() []telemetry.Stats
	// Authentication counts rejected unauthenticated requests.
	Authentication *Authentication
	// Identity counts the credentials that were made in the name of callers; nil without
	// any.
	Identity func() Identity
	// Shared is the state that replicas share; nil without any.
	Shared func() Shared
	// RateService counts the questions to the rate limit service; nil without any.
	RateService func() RateService
	// Lists says what lists of tools cost.
	Lists *listcost.Meter
}

// Metrics serves scrapes. Nil exports nothing and counts nothing.
type Metrics struct {
	registry *prometheus.Registry
	breaking prometheus.Counter
	changes  *prometheus.CounterVec
}

// New registers the sources and the metrics of the process in a new registry. It returns
// an error if two of them have the same name.
func New(s Sources) (*Metrics, error) {
	m := &Metrics{
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
		errs = append(errs, m.registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// BreakingChanges adds n schema changes that break callers.
func (m *Metrics) BreakingChanges(n int) {
	if m == nil || n <= 0 {
		return
	}
	m.breaking.Add(float64(n))
}

// ToolChanges adds the tools in which a catalog differs from the one before.
func (m *Metrics) ToolChanges(added, removed, changed int) {
	if m == nil {
		return
	}
	m.changes.WithLabelValues("added").Add(float64(added))
	m.changes.WithLabelValues("removed").Add(float64(removed))
	m.changes.WithLabelValues("changed").Add(float64(changed))
}

// Gatherer returns what the handler reads, for exporters; of nil, nothing.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	if m == nil {
		return prometheus.Gatherers{}
	}
	return m.registry
}

// Handler returns the handler for scrapes, or nil for nil. It answers in Prometheus'
// text format or in OpenMetrics, as the scraper requests. It does not compress, because
// the listeners do, with the encoders that all of their pages share.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return nil
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: maxScrapes,
	})
}
