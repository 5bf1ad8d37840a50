// SPDX-License-Identifier: Apache-2.0

package board

// fleet is the dashboard that compares instances.
func fleet() Board {
	return Board{
		UID: "outrigger-fleet", File: "outrigger-fleet", Title: "Outrigger: fleet",
		Description: "All sidecars side by side: which instance is slow, full, restarted, or not like the others.",
		Rows:        []Row{instances(), compare()},
	}
}

func instances() Row {
	return Row{"Instances", []Panel{{
		Title: "Instances", Kind: Table, Height: 12, Description: "One row for each sidecar, now.",
		Queries: []Query{
			{Legend: "Ready", Unit: "bool_yes_no", Expr: `sum by (job, instance) (outrigger_lifecycle_state{SCOPE, state="ready"})`},
			{Legend: "Calls", Unit: "reqps", Expr: `sum by (job, instance) (rate(outrigger_calls_total{SCOPE}[$__rate_interval]))`},
			{
				Legend: "Failed calls", Unit: "percentunit",
				Expr: `sum by (job, instance) (rate(outrigger_calls_total{SCOPE, code=~"` + Faults + `"}[$__rate_interval]))` +
					` / (sum by (job, instance) (rate(outrigger_calls_total{SCOPE}[$__rate_interval])) > 0)`,
			},
			{
				Legend: "Duration, p99", Unit: "s",
				Expr: `histogram_quantile(0.99, sum by (job, instance, le) (rate(outrigger_call_duration_seconds_bucket{SCOPE}[$__rate_interval])))`,
			},
			{
				Legend: "Sidecar's share, p99", Unit: "s",
				Expr: `histogram_quantile(0.99, sum by (job, instance, le) (rate(outrigger_call_overhead_seconds_bucket{SCOPE}[$__rate_interval])))`,
			},
			{Legend: "Fullest limit", Unit: "percentunit", Expr: `max by (job, instance) (outrigger_limit_used{SCOPE} / (outrigger_limit_max{SCOPE} > 0))`},
			{Legend: "Tools", Unit: "short", Expr: `sum by (job, instance) (outrigger_catalog_tools{SCOPE})`},
			{Legend: "CPU", Unit: "short", Expr: `sum by (job, instance) (rate(process_cpu_seconds_total{SCOPE}[$__rate_interval]))`},
			{Legend: "Memory", Unit: "bytes", Expr: `sum by (job, instance) (process_resident_memory_bytes{SCOPE})`},
			{Legend: "Up", Unit: "s", Expr: `time() - sum by (job, instance) (process_start_time_seconds{SCOPE})`},
		},
	}}}
}

func compare() Row {
	return Row{"By instance", []Panel{
		{
			Title: "Calls", Unit: "reqps", Description: "Finished calls per second, by instance.",
			Queries: []Query{{Expr: `sum by (instance) (rate(outrigger_calls_total{SCOPE}[$__rate_interval]))`, Legend: "{{instance}}"}},
		},
		{
			Title: "Errors between caller and tool", Unit: "reqps", Runbook: "OutriggerErrorBudgetBurn",
			Description: "Calls per second that failed and that neither the caller nor the tool is to blame for, by instance.",
			Queries:     []Query{{Expr: `sum by (instance) (rate(outrigger_calls_total{SCOPE, code=~"` + Faults + `"}[$__rate_interval]))`, Legend: "{{instance}}"}},
		},
		{
			Title: "Sidecar's share, p99", Unit: "s", Fail: 0.01, Runbook: "OutriggerOverheadHigh", Description: "99th percentile of the time that the sidecar adds to a call, by instance.",
			Queries: []Query{{
				Expr: `histogram_quantile(0.99, sum by (instance, le) (rate(outrigger_call_overhead_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "{{instance}}",
			}},
		},
		{
			Title: "Fullest limit", Unit: "percentunit", Max: 1, Warn: 0.8, Runbook: "OutriggerNearLimit", Description: "Usage of the limit that is closest to its value, by instance.",
			Queries: []Query{{Expr: `max by (instance) (outrigger_limit_used{SCOPE} / (outrigger_limit_max{SCOPE} > 0))`, Legend: "{{instance}}"}},
		},
		{
			Title: "State", Unit: "short", IsStacked: true, Runbook: "OutriggerNotReady", Description: "Sidecars by the state of their process.",
			Queries: []Query{{Expr: `sum by (state) (outrigger_lifecycle_state{SCOPE})`, Legend: "{{state}}"}},
		},
		{
			Title: "Circuit breakers", Unit: "short", Runbook: "OutriggerBreakerOpen", Description: "Sidecars whose circuit breaker of the backend is open or half open, by instance.",
			Queries: []Query{{Expr: `sum by (instance) (outrigger_breaker_state{SCOPE, state=~"open|half_open"})`, Legend: "{{instance}}"}},
		},
	}}
}
