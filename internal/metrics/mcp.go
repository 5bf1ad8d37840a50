// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

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

func (m mcp) collect(now stats.Snapshot, out chan<- prometheus.Metric) {
	for _, n := range now.MCP {
		operation := ""
		if n.IsToolCall {
			operation = tracing.ExecuteTool
		}
		out <- buckets(m.operation, n.Took, n.Method, n.Tool, operation, n.ErrorType, n.Status, n.Version, n.Transport)
	}
	for _, n := range now.Sessions {
		out <- buckets(m.sessions, n.Took, n.ErrorType, n.Version, n.Transport)
	}
}
