// SPDX-License-Identifier: Apache-2.0

package board

// shared is what replicas share: NATS JetStream (--state), and the rate limit service (--rate-service).
func shared() Row {
	return Row{"Shared state and rates", []Panel{
		{
			Title: "Shared state available", Unit: "short", Runbook: "OutriggerStateUnavailable", Description: "1 while an instance can use NATS, else 0. Empty without --state.",
			Queries: []Query{{Expr: `outrigger_state_available{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "Operations on the shared state", Unit: "ops", Runbook: "OutriggerStateErrors", Description: "Operations per second, by store and outcome. A conflict means that another replica was faster.",
			Queries: []Query{{Expr: `sum by (store, outcome) (rate(outrigger_state_operations_total{SCOPE}[$__rate_interval])) > 0`, Legend: "{{store}} {{outcome}}"}},
		},
		{
			Title: "Duration of operations, p99", Unit: "s", Description: "99th percentile of the duration of operations on the shared state, by store.",
			Queries: []Query{{
				Expr: `histogram_quantile(0.99, sum by (store, le) (rate(outrigger_state_operation_duration_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "{{store}}",
			}},
		},
		{
			Title: "Room of the shared state", Unit: "percentunit", Warn: 0.8, Runbook: "OutriggerStateRoom",
			Description: "Used part of the maximum size, by store. Events fill theirs and drop the oldest.",
			Queries:     []Query{{Expr: `max by (store) (outrigger_state_stored_bytes{SCOPE} / outrigger_state_max_bytes{SCOPE})`, Legend: "{{store}}"}},
		},
		{
			Title: "Traffic of the shared state", Unit: "Bps", Description: "Bytes per second written to NATS and read from it, by store.",
			Queries: []Query{{Expr: `sum by (store, direction) (rate(outrigger_state_bytes_total{SCOPE}[$__rate_interval]))`, Legend: "{{store}} {{direction}}"}},
		},
		{
			Title: "Takeovers and unknown outcomes", Unit: "short", Runbook: "OutriggerOutcomeUnknown",
			Description: "In the interval: tasks that were run again here after their replica stopped, that ended with an unknown outcome, that a drain left to others, and events that were lost.",
			Queries: []Query{
				{Expr: `sum(increase(outrigger_task_takeovers_total{SCOPE}[$__rate_interval]))`, Legend: "taken over"},
				{Expr: `sum(increase(outrigger_tasks_outcome_unknown_total{SCOPE}[$__rate_interval]))`, Legend: "outcome unknown"},
				{Expr: `sum(increase(outrigger_tasks_handed_over_total{SCOPE}[$__rate_interval]))`, Legend: "handed over"},
				{Expr: `sum(increase(outrigger_state_events_lost_total{SCOPE}[$__rate_interval]))`, Legend: "events lost"},
			},
		},
		{
			Title: "Rate limit service", Unit: "reqps", Width: 12, Runbook: "OutriggerRateServiceFailing", Description: "Requests per second to the rate limit service by outcome, and those that were skipped. Empty without --rate-service.",
			Queries: []Query{
				{Expr: `sum by (outcome) (rate(outrigger_rate_service_requests_total{SCOPE}[$__rate_interval]))`, Legend: "{{outcome}}"},
				{Expr: `sum by (reason) (rate(outrigger_rate_service_skipped_total{SCOPE}[$__rate_interval]))`, Legend: "skipped: {{reason}}"},
			},
		},
		{
			Title: "Duration of rate limit requests", Unit: "s", Width: 12, Description: "50th and 99th percentile of the time that calls wait for the rate limit service.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.5, sum by (le) (rate(outrigger_rate_service_duration_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "p50"},
				{Expr: `histogram_quantile(0.99, sum by (le) (rate(outrigger_rate_service_duration_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "p99"},
			},
		},
	}}
}
