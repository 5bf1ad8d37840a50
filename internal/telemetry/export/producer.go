// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// ownPrefix begins the names of the metrics of the sidecar, conventionPrefix those of OpenTelemetry's conventions for MCP.
const (
	ownPrefix        = "outrigger_"
	conventionPrefix = "mcp.server."
)

// Descriptions of OpenTelemetry's conventions for MCP, as of August 2026.
const (
	operationHelp = "MCP request or notification duration as observed on the receiver from the time it was received until the result or ack is sent."
	sessionHelp   = "The duration of the MCP session as observed on the MCP server."
)

// producer reads the metrics page.
type producer struct {
	page prometheus.Gatherer
	// began is when our counters began; zero without any.
	began time.Time
}

// NewProducer returns a producer of what the metrics page shows, for a reader of the SDK. What
// OpenTelemetry's conventions for MCP define has the names, attributes and units of the
// conventions; everything else is called as on the page. All of it is cumulative. The page must
// come from the same Stats. If a part of the page cannot be read, the rest is exported and the
// error goes to OpenTelemetry's error handler.
func NewProducer(gatherer prometheus.Gatherer, s *telemetry.Stats) sdkmetric.Producer {
	return producer{page: gatherer, began: s.Began()}
}

// Gather implements [prometheus.Gatherer] for the bridge, which would give up what can be read for the error of a part.
func (p producer) Gather() ([]*dto.MetricFamily, error) {
	families, err := p.page.Gather()
	if err != nil {
		otel.Handle(fmt.Errorf("gather metrics: %w", err))
	}
	return families, nil
}

// Produce implements [sdkmetric.Producer]. It returns no error, because a reader exports nothing at all if it gets one.
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	out, err := bridge.NewMetricProducer(bridge.WithGatherer(p)).Produce(ctx)
	if err != nil {
		otel.Handle(fmt.Errorf("convert metrics: %w", err))
	}
	own := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: telemetry.Scope}}
	for i := range out {
		for j := range out[i].Metrics {
			p.correct(&out[i].Metrics[j])
		}
		out[i].Metrics = slices.DeleteFunc(out[i].Metrics, func(m metricdata.Metrics) bool {
			isConvention := strings.HasPrefix(m.Name, conventionPrefix)
			if isConvention {
				own.Metrics = append(own.Metrics, m)
			}
			return isConvention
		})
	}
	if len(own.Metrics) > 0 {
		out = append(out, own)
	}
	return out, nil
}

// correct puts right what the bridge cannot know or gets wrong: the names of the conventions; when our counters began, which is
// not when the process did in a program that embeds a sidecar; units; and trace ids, which it takes as text.
func (p producer) correct(m *metricdata.Metrics) {
	m.Unit = unitOf(m.Name)
	switch m.Name {
	case "mcp_server_operation_duration_seconds":
		m.Name, m.Description = conventionPrefix+"operation.duration", operationHelp
	case "mcp_server_session_duration_seconds":
		m.Name, m.Description = conventionPrefix+"session.duration", sessionHelp
	}
	isConvention := strings.HasPrefix(m.Name, conventionPrefix)
	isOwn := (isConvention || strings.HasPrefix(m.Name, ownPrefix)) && !p.began.IsZero()
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		for i := range data.DataPoints {
			if isOwn {
				data.DataPoints[i].StartTime = p.began
			}
		}
	case metricdata.Histogram[float64]:
		for i := range data.DataPoints {
			point := &data.DataPoints[i]
			if isOwn {
				point.StartTime = p.began
			}
			if isConvention {
				point.Attributes = attributesOfLabels(point.Attributes)
			}
			decodeIDs(point.Exemplars)
		}
	}
}

// attributesOfLabels are the labels of a series as the conventions spell them. On the page one without a value is empty.
func attributesOfLabels(labels attribute.Set) attribute.Set {
	var out []attribute.KeyValue
	for _, name := range telemetry.Labels() {
		value, _ := labels.Value(attribute.Key(strings.ReplaceAll(name, ".", "_")))
		if text := value.AsString(); text != "" {
			out = append(out, attribute.String(name, text))
		}
	}
	return attribute.NewSet(out...)
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
