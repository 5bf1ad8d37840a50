// SPDX-License-Identifier: Apache-2.0

// Package metrics exports the counters of the process to Prometheus.
//
// The parts of the pipeline count for themselves, and a scrape reads their
// counters. So without scrapes, the package does nothing.
//
// It keeps no counters of other packages, starts no goroutine, and is the only
// package that imports Prometheus. Everything is safe for concurrent use, if the
// sources are.
package metrics

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// namespace begins the names of all metrics that are ours.
const namespace = "outrigger"

// maxScrapes bounds how many scrapes are answered at a time: two Prometheus
// servers for availability, a person with curl, and one that is slow to read.
// More are answered with 503.
const maxScrapes = 4

// Sources are what is read at a scrape. Of a part that is nil nothing is shown,
// except of the records, whose nil is a recorder that is off.
type Sources struct {
	// Begun returns how many requests there have been, InFlight how many of them
	// have no answer yet.
	Begun    func() uint64
	InFlight func() int
	// Repaired returns how many calls had arguments that were decoded from
	// strings, Disagreements how often two checks of one message disagreed.
	Repaired, Disagreements func() uint64

	Catalog *catalog.Live
	Events  *event.Memory
	Gate    *policy.Gate
	Limiter *policy.Limiter
	// Slots know who waits for whom; nil for none.
	Slots  *policy.Slots
	Record *record.Run
	// RecordUnavailable tells that records were asked for, and that their folder
	// could not be opened.
	RecordUnavailable bool
	// Guard stands around the calls of the backend, Life knows what the process is
	// doing.
	Guard *resilience.Guard
	Life  *lifecycle.Machine
	// Limits are the bounds of the process, each under another name.
	Limits []Limit
	// Traffic is how requests end.
	Traffic *stats.Stats
	// CallsSkipped is how many calls left no line in the log because there were
	// too many.
	CallsSkipped func() uint64
	// Reloads are the files that may change at run time.
	Reloads *Reloads
	// Authentication counts rejected unauthenticated requests.
	Authentication *Authentication
}

// Metrics is what a scrape gets. Nil shows nothing and counts nothing.
type Metrics struct {
	registry *prometheus.Registry
	breaking prometheus.Counter
}

// New enters the sources and the process itself in a registry of its own. An
// error means that two of them have one name.
func New(s Sources) (*Metrics, error) {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		breaking: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "catalog_breaking_changes_total",
			Help: "Breaking schema changes under an unchanged major version of the tool.",
		}),
	}
	all := append(s.collectors(), m.breaking,
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

// BreakingChanges counts n more schema changes that break callers.
func (m *Metrics) BreakingChanges(n int) {
	if m == nil || n <= 0 {
		return
	}
	m.breaking.Add(float64(n))
}

// Handler answers scrapes, in Prometheus' text format or in OpenMetrics as the
// scraper asks; nil for nil. Nothing is compressed: a page is some kilobytes on a
// network within one machine or pod, and a compressor's buffers would outweigh it
// a hundred times.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return nil
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: maxScrapes,
	})
}
