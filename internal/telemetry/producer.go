// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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
	page  sdkmetric.Producer
	tally *stats.Stats
}

// NewProducer returns a producer of what the metrics page shows, for a reader of the SDK. What
// OpenTelemetry's conventions for MCP define has the names, attributes and units of the
// conventions; everything else is called as on the page. All of it is cumulative. The page must
// come from the same Stats.
func NewProducer(gatherer prometheus.Gatherer, s *stats.Stats) sdkmetric.Producer {
	return producer{page: bridge.NewMetricProducer(bridge.WithGatherer(withoutConventions{gatherer})), tally: s}
}

// Produce implements [sdkmetric.Producer].
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	out, err := p.page.Produce(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics page: %w", err)
	}
	now := p.tally.Snapshot()
	for _, scope := range out {
		for i := range scope.Metrics {
			correct(&scope.Metrics[i], now.Began)
		}
	}
	return append(out, conventions(now, time.Now())...), nil
}

// withoutConventions is a page without the metrics that conventions makes.
type withoutConventions struct{ prometheus.Gatherer }

// Gather implements [prometheus.Gatherer].
func (w withoutConventions) Gather() ([]*dto.MetricFamily, error) {
	all, err := w.Gatherer.Gather()
	kept := make([]*dto.MetricFamily, 0, len(all))
	for _, family := range all {
		if !strings.HasPrefix(family.GetName(), conventionPrefix) {
			kept = append(kept, family)
		}
	}
	if err != nil {
		return kept, fmt.Errorf("gather metrics: %w", err)
	}
	return kept, nil
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
