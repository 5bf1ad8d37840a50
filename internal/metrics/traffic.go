// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// traffic is a collector of how requests end: calls by tool, everything else by
// operation, and the sidecar's own time by edge. The stats bounds the number of
// tools, and so that of the series.
type traffic struct {
	from                                            *stats.Stats
	calls, inFlight, took, requests, overhead, http *prometheus.Desc
	mcp                                             mcp
}

func newTraffic(from *stats.Stats) prometheus.Collector {
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
