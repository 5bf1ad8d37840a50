// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

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
func conventions(of stats.Snapshot, now time.Time) []metricdata.ScopeMetrics {
	var operations, sessions []metricdata.HistogramDataPoint[float64]
	for _, n := range of.MCP {
		operations = append(operations, point(n.Took, mcpAttributes(n), of.Began, now))
	}
	for _, n := range of.Sessions {
		attributes := present(tracing.ProtocolVersion, n.Version, tracing.Transport, n.Transport, tracing.ErrorType, n.ErrorType)
		sessions = append(sessions, point(n.Took, attributes, of.Began, now))
	}
	var all []metricdata.Metrics
	if len(operations) > 0 {
		all = append(all, histogram(operationDuration, operationDurationHelp, operations))
	}
	if len(sessions) > 0 {
		all = append(all, histogram(sessionDuration, sessionDurationHelp, sessions))
	}
	if len(all) == 0 {
		return nil
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: all}}
}

func histogram(name, help string, points []metricdata.HistogramDataPoint[float64]) metricdata.Metrics {
	return metricdata.Metrics{
		Name: name, Description: help, Unit: unitSeconds,
		Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality},
	}
}

func mcpAttributes(n stats.MCPNumbers) attribute.Set {
	operation := ""
	if n.IsToolCall {
		operation = tracing.ExecuteTool
	}
	return present(
		tracing.MethodName, n.Method, tracing.ToolName, n.Tool, tracing.OperationName, operation, tracing.ErrorType, n.ErrorType,
		tracing.StatusCode, n.Status, tracing.ProtocolVersion, n.Version, tracing.Transport, n.Transport,
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

func point(h stats.Histogram, attributes attribute.Set, began, now time.Time) metricdata.HistogramDataPoint[float64] {
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
