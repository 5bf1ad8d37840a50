// SPDX-License-Identifier: Apache-2.0

package board

// service is the dashboard of one service's sidecars.
func service() Board {
	return Board{
		UID: "outrigger", File: "outrigger", Title: "Outrigger", HasTool: true,
		Description: "The sidecars of a service: calls by tool and edge, what the sidecar adds, what it refuses, how full its limits are, and the state of the backend.",
		Rows: []Row{
			glance(), byTool(), byEdge(), share(), refusals(), saturation(), queue(), backend(), content(), shared(), trails(), telemetry(), process(),
		},
	}
}

func glance() Row {
	return Row{"At a glance", []Panel{
		{
			Title: "Calls", Kind: Number, Unit: "reqps", Description: "Finished tool calls per second.",
			Queries: []Query{{Expr: `sum(rate(outrigger_calls_total{SCOPE}[$__rate_interval]))`, Legend: "calls"}},
		},
		{
			Title: "Failed calls", Kind: Number, Unit: "percentunit", Warn: 0.001, Fail: 0.01, Runbook: "OutriggerErrorBudgetBurn",
			Description: "Share of the calls that failed between caller and tool. Errors of the caller and of the tool itself do not count.",
			Queries: []Query{{
				Expr: `(sum(rate(outrigger_calls_total{SCOPE, code=~"` + Faults + `"}[$__rate_interval])) or vector(0))` +
					` / (sum(rate(outrigger_calls_total{SCOPE}[$__rate_interval])) > 0)`,
				Legend: "failed",
			}},
		},
		{
			Title: "Duration, p99", Kind: Number, Unit: "s", Description: "99th percentile of the duration of tool calls.",
			Queries: []Query{{Expr: `histogram_quantile(0.99, sum by (le) (rate(outrigger_call_duration_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "p99"}},
		},
		{
			Title: "Sidecar's share, p99", Kind: Number, Unit: "s", Warn: 0.005, Fail: 0.01, Runbook: "OutriggerOverheadHigh",
			Description: "99th percentile of the time that the sidecar itself adds to a call.",
			Queries:     []Query{{Expr: `histogram_quantile(0.99, sum by (le) (rate(outrigger_call_overhead_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "p99"}},
		},
		{
			Title: "In flight", Kind: Number, Unit: "short", Description: "Tool calls in flight.",
			Queries: []Query{{Expr: `sum(outrigger_calls_in_flight{SCOPE})`, Legend: "in flight"}},
		},
		{
			Title: "Not ready", Kind: Number, Unit: "short", Fail: 1, Runbook: "OutriggerNotReady",
			Description: "Sidecars that are starting or not ready: without a catalog, or with an open circuit breaker.",
			Queries:     []Query{{Expr: `sum(outrigger_lifecycle_state{SCOPE, state=~"starting|not_ready"})`, Legend: "not ready"}},
		},
		{
			Title: "Fullest limit", Kind: Number, Unit: "percentunit", Warn: 0.8, Fail: 0.95, Runbook: "OutriggerNearLimit",
			Description: "Usage of the limit that is closest to its value.",
			Queries:     []Query{{Expr: `max(outrigger_limit_used{SCOPE} / (outrigger_limit_max{SCOPE} > 0))`, Legend: "used"}},
		},
		{
			Title: "Firing alerts", Kind: Number, Unit: "short", Warn: 1, Description: "Firing alerts of Outrigger, of all jobs.",
			Queries: []Query{{Expr: `count(ALERTS{alertname=~"Outrigger.+", alertstate="firing"}) or vector(0)`, Legend: "firing"}},
		},
	}}
}
