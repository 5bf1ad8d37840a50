// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/hex"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// traffic is a collector of how requests end: calls by tool, everything else by
// operation, and the sidecar's own time by edge. The stats bounds the number of
// tools, and so that of the series.
type traffic struct {
	from                                            *telemetry.Stats
	calls, inFlight, took, requests, overhead, http *prometheus.Desc
	mcp                                             mcp
}

func newTraffic(from *telemetry.Stats) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return traffic{
		from: from, mcp: newMCP(),
		calls: desc("calls_total", "Finished tool calls by canonical tool, canonical code (OK for success) and edge. The tool is empty for "+
			"calls of unknown tools, and \"other\" beyond the first tools (telemetry.max_metric_tools).", "tool", "code", "edge"),
		inFlight: desc("calls_in_flight", "Tool calls in flight.", "tool"),
		took:     desc("call_duration_seconds", "Duration of tool calls, from the parsed request to the response, before it is written.", "tool"),
		requests: desc("requests_total", "Finished requests other than tool calls by operation, canonical code and edge. The operation is empty "+
			"for messages rejected before they became a request.", "operation", "code", "edge"),
		overhead: desc("call_overhead_seconds", "The sidecar's own share of a tool call: its duration without the wait for the backend.", "edge"),
		http: desc("http_refused_total", "HTTP requests rejected for their path, method, headers, type, size or sender, by edge and canonical code. "+
			"They are not counted as calls.", "edge", "code"),
	}
}

// Describe implements [prometheus.Collector].
func (t traffic) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{t.calls, t.inFlight, t.took, t.requests, t.overhead, t.http} {
		out <- desc
	}
	t.mcp.describe(out)
}

// Collect implements [prometheus.Collector].
func (t traffic) Collect(out chan<- prometheus.Metric) {
	now := t.from.Snapshot()
	for _, tool := range now.Tools {
		for _, end := range tool.Ends {
			out <- labelled(t.calls, prometheus.CounterValue, float64(end.Count), tool.Name, end.Code, end.Edge.String())
		}
		out <- labelled(t.inFlight, prometheus.GaugeValue, float64(tool.InFlight), tool.Name)
		out <- buckets(t.took, tool.Took, tool.Name)
	}
	for _, operation := range now.Operations {
		for _, end := range operation.Ends {
			out <- labelled(t.requests, prometheus.CounterValue, float64(end.Count), operation.Name, end.Code, end.Edge.String())
		}
	}
	for _, end := range now.HTTP {
		out <- labelled(t.http, prometheus.CounterValue, float64(end.Count), end.Edge.String(), end.Code)
	}
	for edge, h := range now.Overhead {
		out <- buckets(t.overhead, h, edge.String())
	}
	t.mcp.collect(now, out)
}

// mcp shows the metrics of OpenTelemetry's conventions for MCP, in Prometheus'
// spelling: names and labels with underscores, and every label on every series.
type mcp struct{ operation, sessions *prometheus.Desc }

func newMCP() mcp {
	return mcp{
		operation: prometheus.NewDesc("mcp_server_operation_duration_seconds",
			"Duration of MCP requests, by OpenTelemetry's conventions for MCP (mcp.server.operation.duration). A label that does not apply is empty.",
			[]string{
				"mcp_method_name", "gen_ai_tool_name", "gen_ai_operation_name", "error_type", "rpc_response_status_code",
				"mcp_protocol_version", "network_transport",
			}, nil),
		sessions: prometheus.NewDesc("mcp_server_session_duration_seconds",
			"Duration of ended MCP sessions, by OpenTelemetry's conventions for MCP (mcp.server.session.duration).",
			[]string{"error_type", "mcp_protocol_version", "network_transport"}, nil),
	}
}

func (m mcp) describe(out chan<- *prometheus.Desc) {
	out <- m.operation
	out <- m.sessions
}

func (m mcp) collect(now telemetry.Snapshot, out chan<- prometheus.Metric) {
	for _, n := range now.MCP {
		operation := ""
		if n.IsToolCall {
			operation = telemetry.ExecuteTool
		}
		out <- buckets(m.operation, n.Took, n.Method, n.Tool, operation, n.ErrorType, n.Status, n.Version, n.Transport)
	}
	for _, n := range now.Sessions {
		out <- buckets(m.sessions, n.Took, n.ErrorType, n.Version, n.Transport)
	}
}

// buckets is a histogram as Prometheus wants it: each bucket holds those before. Only
// OpenMetrics shows its exemplars.
func buckets(desc *prometheus.Desc, h telemetry.Histogram, labels ...string) prometheus.Metric {
	below, n := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		below[seconds(bound)] = n
	}
	made, err := prometheus.NewConstHistogram(desc, h.Count(), seconds(h.Sum), below, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	if len(h.Exemplars) == 0 {
		return made
	}
	with, err := prometheus.NewMetricWithExemplars(made, exemplars(h.Exemplars)...)
	if err != nil {
		return made // the counts are more important
	}
	return with
}

// exemplars names the traces of requests, as OpenTelemetry and Grafana spell them.
func exemplars(all []telemetry.Exemplar) []prometheus.Exemplar {
	out := make([]prometheus.Exemplar, 0, len(all))
	for _, one := range all {
		out = append(out, prometheus.Exemplar{
			Value: seconds(one.Took), Timestamp: one.At,
			Labels: prometheus.Labels{"trace_id": hex.EncodeToString(one.TraceID[:]), "span_id": hex.EncodeToString(one.SpanID[:])},
		})
	}
	return out
}

// seconds is a duration in Prometheus' unit, with bounds as people write them:
// 0.00025 rather than 0.00025000000000000001.
func seconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e9 }
