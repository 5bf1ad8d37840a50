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

// ownPrefix begins the names of the metrics of the sidecar, conventionPrefix those on the page
// that OpenTelemetry's conventions name.
const (
	ownPrefix        = "outrigger_"
	conventionPrefix = "mcp_server_"
)

// producer reads the metrics page and the tally.
type producer struct {
	page  prometheus.Gatherer
	tally *telemetry.Stats
}

// NewProducer returns a producer of what the metrics page shows, for a reader of the SDK. What
// OpenTelemetry's conventions for MCP define has the names, attributes and units of the
// conventions; everything else is called as on the page. All of it is cumulative. The page must
// come from the same Stats. If a part of the page cannot be read, the rest is exported and the
// error goes to OpenTelemetry's error handler.
func NewProducer(gatherer prometheus.Gatherer, s *telemetry.Stats) sdkmetric.Producer {
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

// Names and descriptions of OpenTelemetry's conventions for MCP, as of August 2026.
const (
	operationDuration     = "mcp.server.operation.duration"
	operationDurationHelp = "MCP request or notification duration as observed on the receiver from the time it was received until the result or ack is sent."
	sessionDuration       = "mcp.server.session.duration"
	sessionDurationHelp   = "The duration of the MCP session as observed on the MCP server."
	unitSeconds           = "s"
)

// conventions are the metrics of OpenTelemetry's conventions for MCP. A metric without series is
// left out.
func conventions(of telemetry.Snapshot, now time.Time) []metricdata.ScopeMetrics {
	var operations, sessions []metricdata.HistogramDataPoint[float64]
	for _, n := range of.MCP {
		operations = append(operations, point(n.Took, mcpAttributes(n), of.Began, now))
	}
	for _, n := range of.Sessions {
		attributes := present(telemetry.ProtocolVersion, n.Version, telemetry.Transport, n.Transport, telemetry.ErrorType, n.ErrorType)
		sessions = append(sessions, point(n.Took, attributes, of.Began, now))
	}
	var all []metricdata.Metrics
	if len(operations) > 0 {
		all = append(all, histogramOf(operationDuration, operationDurationHelp, operations))
	}
	if len(sessions) > 0 {
		all = append(all, histogramOf(sessionDuration, sessionDurationHelp, sessions))
	}
	if len(all) == 0 {
		return nil
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: telemetry.Scope}, Metrics: all}}
}

func histogramOf(name, help string, points []metricdata.HistogramDataPoint[float64]) metricdata.Metrics {
	return metricdata.Metrics{
		Name: name, Description: help, Unit: unitSeconds,
		Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality},
	}
}

func mcpAttributes(n telemetry.MCPNumbers) attribute.Set {
	operation := ""
	if n.IsToolCall {
		operation = telemetry.ExecuteTool
	}
	return present(
		telemetry.MethodName, n.Method, telemetry.ToolName, n.Tool, telemetry.OperationName, operation, telemetry.ErrorType, n.ErrorType,
		telemetry.StatusCode, n.Status, telemetry.ProtocolVersion, n.Version, telemetry.Transport, n.Transport,
	)
}

// present are the attributes that have a value, from pairs of name and value.
func present(pairs ...string) attribute.Set {
	var all []attribute.KeyValue
	for pair := range slices.Chunk(pairs, 2) {
		if value := pair[1]; value != "" {
			all = append(all, attribute.String(pair[0], value))
		}
	}
	return attribute.NewSet(all...)
}

func point(h telemetry.Histogram, attributes attribute.Set, began, now time.Time) metricdata.HistogramDataPoint[float64] {
	bounds := make([]float64, len(h.Bounds))
	for i, bound := range h.Bounds {
		bounds[i] = bound.Seconds()
	}
	p := metricdata.HistogramDataPoint[float64]{
		Attributes: attributes, StartTime: began, Time: now,
		Count: h.Count(), Sum: h.Sum.Seconds(), Bounds: bounds, BucketCounts: h.Counts,
	}
	for _, one := range h.Exemplars {
		p.Exemplars = append(p.Exemplars, metricdata.Exemplar[float64]{
			Time: one.At, Value: one.Took.Seconds(), TraceID: one.TraceID[:], SpanID: one.SpanID[:],
		})
	}
	return p
}
