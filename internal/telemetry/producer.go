// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// ownPrefix begins the names of the metrics of the sidecar, conventionPrefix those on the page
// that OpenTelemetry's conventions name.
const (
	ownPrefix        = "outrigger_"
	conventionPrefix = "mcp_server_"
)

// producer reads the metrics page and the tally.
type producer struct {
	page  prometheus.Gatherer
	tally *stats.Stats
}

// NewProducer returns a producer of what the metrics page shows, for a reader of the SDK. What
// OpenTelemetry's conventions for MCP define has the names, attributes and units of the
// conventions; everything else is called as on the page. All of it is cumulative. The page must
// come from the same Stats. If a part of the page cannot be read, the rest is exported and the
// error goes to OpenTelemetry's error handler.
func NewProducer(gatherer prometheus.Gatherer, s *stats.Stats) sdkmetric.Producer {
	return producer{page: gatherer, tally: s}
}

// Produce implements [sdkmetric.Producer].
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	families, err := p.page.Gather()
	if err != nil {
		otel.Handle(fmt.Errorf("gather metrics: %w", err)) // a reader exports nothing at all if it gets an error
	}
	out, err := bridge.NewMetricProducer(bridge.WithGatherer(withoutConventions(families))).Produce(ctx)
	if err != nil {
		otel.Handle(fmt.Errorf("convert metrics: %w", err))
	}
	now := p.tally.Snapshot()
	for _, scope := range out {
		for i := range scope.Metrics {
			correct(&scope.Metrics[i], now.Began)
		}
	}
	return append(out, conventions(now, time.Now())...), nil
}

// withoutConventions is what a page showed, without the metrics that conventions makes.
type withoutConventions []*dto.MetricFamily

// Gather implements [prometheus.Gatherer].
func (w withoutConventions) Gather() ([]*dto.MetricFamily, error) {
	return slices.DeleteFunc(slices.Clone(w), func(family *dto.MetricFamily) bool {
		return strings.HasPrefix(family.GetName(), conventionPrefix)
	}), nil
}

// correct puts right what the bridge cannot know or gets wrong: when our counters began, which is
// not when the process did in a program that embeds a sidecar; units; and trace ids, which it takes
// as text.
func correct(m *metricdata.Metrics, began time.Time) {
	m.Unit = unitOf(m.Name)
	isOwn := strings.HasPrefix(m.Name, ownPrefix) && !began.IsZero()
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		for i := range data.DataPoints {
			if isOwn {
				data.DataPoints[i].StartTime = began
			}
		}
	case metricdata.Histogram[float64]:
		for i := range data.DataPoints {
			if isOwn {
				data.DataPoints[i].StartTime = began
			}
			decodeIDs(data.DataPoints[i].Exemplars)
		}
	}
}

// unitOf is the unit that the name of a metric on the page ends with.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	}
	return ""
}

// decodeIDs turns the ids of exemplars from text to bytes.
func decodeIDs(all []metricdata.Exemplar[float64]) {
	for i := range all {
		all[i].TraceID, all[i].SpanID = decoded(all[i].TraceID), decoded(all[i].SpanID)
	}
}

// decoded is an id as bytes. A bridge that has decoded it already is left alone.
func decoded(id []byte) []byte {
	out := make([]byte, hex.DecodedLen(len(id)))
	if _, err := hex.Decode(out, id); err != nil {
		return id
	}
	return out
}
