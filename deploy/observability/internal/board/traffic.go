// SPDX-License-Identifier: Apache-2.0

package board

func byTool() Row {
	return Row{"Calls by tool", []Panel{
		{
			Title: "Calls", Unit: "reqps", Description: "Finished calls per second, by tool. Calls of unknown tools have an empty name.",
			Queries: []Query{{Expr: `sum by (tool) (rate(outrigger_calls_total{SCOPE, tool=~"$tool"}[$__rate_interval]))`, Legend: "{{tool}}"}},
		},
		{
			Title: "Errors between caller and tool", Unit: "reqps", Runbook: "OutriggerErrorBudgetBurn",
			Description: "Calls per second that failed and that neither the caller nor the tool is to blame for, by tool and code.",
			Queries: []Query{{
				Expr:   `sum by (tool, code) (rate(outrigger_calls_total{SCOPE, tool=~"$tool", code=~"` + Faults + `"}[$__rate_interval]))`,
				Legend: "{{tool}} {{code}}",
			}},
		},
		{
			Title: "Errors of the tools", Unit: "reqps", Description: "Calls per second that the tool itself answered with an error, by tool.",
			Queries: []Query{{Expr: `sum by (tool) (rate(outrigger_calls_total{SCOPE, tool=~"$tool", code="TOOL_EXECUTION_FAILED"}[$__rate_interval]))`, Legend: "{{tool}}"}},
		},
		{
			Title: "Duration, p50", Unit: "s", Description: "Median of the duration of calls, by tool. The points are exemplars: they link to the trace of one call.",
			Queries: []Query{{
				Expr:   `histogram_quantile(0.5, sum by (tool, le) (rate(outrigger_call_duration_seconds_bucket{SCOPE, tool=~"$tool"}[$__rate_interval])))`,
				Legend: "{{tool}}", HasExemplars: true,
			}},
		},
		{
			Title: "Duration, p99", Unit: "s",
			Description: "99th percentile of the duration of calls, by tool. The points are exemplars: they link to the trace of one call.",
			Queries: []Query{{
				Expr:   `histogram_quantile(0.99, sum by (tool, le) (rate(outrigger_call_duration_seconds_bucket{SCOPE, tool=~"$tool"}[$__rate_interval])))`,
				Legend: "{{tool}}", HasExemplars: true,
			}},
		},
		{
			Title: "In flight", Unit: "short", IsStacked: true, Description: "Calls in flight, by tool: a tool that hangs grows here.",
			Queries: []Query{{Expr: `sum by (tool) (outrigger_calls_in_flight{SCOPE, tool=~"$tool"})`, Legend: "{{tool}}"}},
		},
	}}
}

func byEdge() Row {
	return Row{"Calls by edge", []Panel{
		{
			Title: "Calls", Unit: "reqps", Description: "Finished calls per second, by edge: MCP, JSON-RPC, stdio, the tool API and the typed pass-through.",
			Queries: []Query{{Expr: `sum by (edge) (rate(outrigger_calls_total{SCOPE}[$__rate_interval]))`, Legend: "{{edge}}"}},
		},
		{
			Title: "Failed calls", Unit: "percentunit", Runbook: "OutriggerErrorBudgetBurn",
			Description: "Share of the calls of an edge that failed between caller and tool.",
			Queries: []Query{{
				Expr: `sum by (edge) (rate(outrigger_calls_total{SCOPE, code=~"` + Faults + `"}[$__rate_interval]))` +
					` / (sum by (edge) (rate(outrigger_calls_total{SCOPE}[$__rate_interval])) > 0)`,
				Legend: "{{edge}}",
			}},
		},
		{
			Title: "Other requests", Unit: "reqps",
			Description: "Finished requests other than calls, by operation and code. Messages that never became a request have an empty operation.",
			Queries:     []Query{{Expr: `sum by (operation, code) (rate(outrigger_requests_total{SCOPE}[$__rate_interval]))`, Legend: "{{operation}} {{code}}"}},
		},
		{
			Title: "MCP requests, p99", Unit: "s",
			Description: "99th percentile of the duration of MCP requests, by method and by OpenTelemetry's conventions. The smallest bucket is 10 ms.",
			Queries: []Query{{
				Expr:   `histogram_quantile(0.99, sum by (mcp_method_name, le) (rate(mcp_server_operation_duration_seconds_bucket{SCOPE}[$__rate_interval])))`,
				Legend: "{{mcp_method_name}}", HasExemplars: true,
			}},
		},
		{
			Title: "MCP errors", Unit: "reqps",
			Description: "MCP requests per second that ended with an error that is not the caller's, by method and type.",
			Queries: []Query{{
				Expr:   `sum by (mcp_method_name, error_type) (rate(mcp_server_operation_duration_seconds_count{SCOPE, error_type!=""}[$__rate_interval]))`,
				Legend: "{{mcp_method_name}} {{error_type}}",
			}},
		},
		{
			Title: "MCP requests by revision", Unit: "reqps", Description: "MCP requests and ended legacy sessions per second, by revision of MCP.",
			Queries: []Query{
				{
					Expr:   `sum by (mcp_protocol_version) (rate(mcp_server_operation_duration_seconds_count{SCOPE, mcp_protocol_version!=""}[$__rate_interval]))`,
					Legend: "{{mcp_protocol_version}}",
				},
				{Expr: `sum by (mcp_protocol_version) (rate(mcp_server_session_duration_seconds_count{SCOPE}[$__rate_interval]))`, Legend: "sessions of {{mcp_protocol_version}}"},
			},
		},
	}}
}

func share() Row {
	return Row{"The sidecar's share", []Panel{
		{
			Title: "Added time, p50", Unit: "s", Description: "Median of the time that the sidecar adds to a call, by edge: the duration without the wait for the backend or a user.",
			Queries: []Query{{
				Expr:   `histogram_quantile(0.5, sum by (edge, le) (rate(outrigger_call_overhead_seconds_bucket{SCOPE}[$__rate_interval])))`,
				Legend: "{{edge}}", HasExemplars: true,
			}},
		},
		{
			Title: "Added time, p99", Unit: "s", Fail: 0.01, Runbook: "OutriggerOverheadHigh",
			Description: "99th percentile of the time that the sidecar adds to a call, by edge.",
			Queries: []Query{{
				Expr:   `histogram_quantile(0.99, sum by (edge, le) (rate(outrigger_call_overhead_seconds_bucket{SCOPE}[$__rate_interval])))`,
				Legend: "{{edge}}", HasExemplars: true,
			}},
		},
		{
			Title: "Part of the duration", Unit: "percentunit",
			Description: "The sidecar's part of the duration of all calls. The rest is the backend, and users who are asked.",
			Queries: []Query{{
				Expr: `sum(rate(outrigger_call_overhead_seconds_sum{SCOPE}[$__rate_interval]))` +
					` / (sum(rate(outrigger_call_duration_seconds_sum{SCOPE}[$__rate_interval])) > 0)`,
				Legend: "sidecar",
			}},
		},
	}}
}

func refusals() Row {
	return Row{"Refusals", []Panel{
		{
			Title: "Refused by policy", Unit: "reqps", Description: "Calls per second that the destructive gate or a rate limit refused, by code and tool.",
			Queries: []Query{{Expr: `sum by (code, tool) (rate(outrigger_calls_refused_total{SCOPE, tool=~"|$tool"}[$__rate_interval]))`, Legend: "{{code}} {{tool}}"}},
		},
		{
			Title: "Errors of callers", Unit: "reqps", Description: "Calls per second that failed because of the caller, by code: invalid arguments, unknown tools, missing permissions.",
			Queries: []Query{{
				Expr:   `sum by (code) (rate(outrigger_calls_total{SCOPE, code!~"OK|TOOL_EXECUTION_FAILED|` + Faults + `"}[$__rate_interval]))`,
				Legend: "{{code}}",
			}},
		},
		{
			Title: "Refused HTTP requests", Unit: "reqps", Runbook: "OutriggerKeptOut",
			Description: "HTTP requests per second that were rejected before their message was parsed, by edge and code.",
			Queries:     []Query{{Expr: `sum by (edge, code) (rate(outrigger_http_refused_total{SCOPE}[$__rate_interval]))`, Legend: "{{edge}} {{code}}"}},
		},
		{
			Title: "Unauthenticated requests", Unit: "reqps", Runbook: "OutriggerKeptOut", Description: "Rejected unauthenticated requests per second, by reason.",
			Queries: []Query{{Expr: `sum by (reason) (rate(outrigger_unauthenticated_total{SCOPE}[$__rate_interval]))`, Legend: "{{reason}}"}},
		},
		{
			Title: "Policy rules", Unit: "reqps", Description: "Decisions of policy rules per second, by rule and effect, and evaluations that failed.",
			Queries: []Query{
				{Expr: `sum by (rule, effect) (rate(outrigger_policy_decisions_total{SCOPE}[$__rate_interval]))`, Legend: "{{rule}} {{effect}}"},
				{Expr: `sum by (rule) (rate(outrigger_policy_failures_total{SCOPE}[$__rate_interval]))`, Legend: "{{rule}} failed"},
			},
		},
		{
			Title: "Refused by limits", Unit: "reqps", Runbook: "OutriggerLoadShed", Description: "Items per second that were rejected or ended because a limit was reached, by limit.",
			Queries: []Query{{Expr: `sum by (limit) (rate(outrigger_limit_refused_total{SCOPE}[$__rate_interval])) > 0`, Legend: "{{limit}}"}},
		},
	}}
}
