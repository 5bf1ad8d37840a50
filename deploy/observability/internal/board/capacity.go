// SPDX-License-Identifier: Apache-2.0

package board

func saturation() Row {
	return Row{"Saturation of limits", []Panel{
		{
			Title: "Usage of limits", Unit: "percentunit", Width: 16, Height: 12, Max: 1, Warn: 0.8, Runbook: "OutriggerNearLimit",
			Description: "Current usage of every limit that has an amount, as a part of its value, in the fullest sidecar.",
			Queries:     []Query{{Expr: `max by (limit) (outrigger_limit_used{SCOPE} / (outrigger_limit_max{SCOPE} > 0))`, Legend: "{{limit}}"}},
		},
		{
			Title: "Requests in flight", Unit: "short", Height: 12, Description: "Requests without a response yet, by instance.",
			Queries: []Query{{Expr: `outrigger_requests_in_flight{SCOPE}`, Legend: "{{instance}}"}},
		},
	}}
}

func queue() Row {
	return Row{"Queue", []Panel{
		{
			Title: "Queued calls", Unit: "short", IsStacked: true, Runbook: "OutriggerLoadShed", Description: "Calls that wait for a slot, by tool.",
			Queries: []Query{{Expr: `sum by (tool) (outrigger_queue_tool_waiting{SCOPE})`, Legend: "{{tool}}"}},
		},
		{
			Title: "Oldest queued call", Unit: "s", Description: "Age of the oldest queued call, by tool.",
			Queries: []Query{{Expr: `max by (tool) (outrigger_queue_tool_oldest_seconds{SCOPE})`, Legend: "{{tool}}"}},
		},
		{
			Title: "Slots of tools", Unit: "short", Description: "Running calls and the adaptive concurrency limit of each tool, while any call is queued.",
			Queries: []Query{
				{Expr: `sum by (tool) (outrigger_queue_tool_running{SCOPE})`, Legend: "{{tool}} running"},
				{Expr: `sum by (tool) (outrigger_queue_tool_concurrency_limit{SCOPE})`, Legend: "{{tool}} limit"},
			},
		},
		{
			Title: "Queued calls of callers", Unit: "short", IsStacked: true, Description: "Calls that wait for a slot, by caller: at most 50 callers of each sidecar.",
			Queries: []Query{{Expr: `sum by (caller) (outrigger_queue_caller_waiting{SCOPE})`, Legend: "{{caller}}"}},
		},
		{
			Title: "Calls without a slot", Unit: "reqps", Runbook: "OutriggerLoadShed", Description: "Calls per second that got no slot, by tool and by the limit that they met.",
			Queries: []Query{{Expr: `sum by (tool, limit) (rate(outrigger_queue_rejected_total{SCOPE}[$__rate_interval]))`, Legend: "{{tool}} {{limit}}"}},
		},
		{
			Title: "Classes", Unit: "short", Description: "Running and queued calls of the configured classes, beside their reserved slots.",
			Queries: []Query{
				{Expr: `sum by (of, class) (outrigger_class_running{SCOPE})`, Legend: "{{of}} {{class}} running"},
				{Expr: `sum by (of, class) (outrigger_class_waiting{SCOPE})`, Legend: "{{of}} {{class}} waiting"},
				{Expr: `sum by (of, class) (outrigger_class_reserved{SCOPE})`, Legend: "{{of}} {{class}} reserved"},
			},
		},
	}}
}

func backend() Row {
	return Row{"Backend: circuit breakers and retries", []Panel{
		{
			Title: "Circuit breaker of the backend", Unit: "short", Runbook: "OutriggerBreakerOpen", Description: "Sidecars whose circuit breaker is open or half open.",
			Queries: []Query{{Expr: `sum by (state) (outrigger_breaker_state{SCOPE, state=~"open|half_open"})`, Legend: "{{state}}"}},
		},
		{
			Title: "Circuit breakers of tools", Unit: "short", Runbook: "OutriggerToolBreakerOpen", Description: "Sidecars that fail the calls of a tool fast, because the tool times out.",
			Queries: []Query{{Expr: `sum by (tool, state) (outrigger_tool_breaker_state{SCOPE, tool=~"$tool"})`, Legend: "{{tool}} {{state}}"}},
		},
		{
			Title: "Calls that failed fast", Unit: "reqps", Description: "Calls per second that an open circuit breaker answered, and how often breakers opened.",
			Queries: []Query{
				{Expr: `sum(rate(outrigger_breaker_held_total{SCOPE}[$__rate_interval]))`, Legend: "backend"},
				{Expr: `sum(rate(outrigger_tool_breaker_held_total{SCOPE}[$__rate_interval]))`, Legend: "tools"},
				{Expr: `sum(rate(outrigger_breaker_opened_total{SCOPE}[$__rate_interval]))`, Legend: "opened, backend"},
				{Expr: `sum(rate(outrigger_tool_breaker_opened_total{SCOPE}[$__rate_interval]))`, Legend: "opened, tools"},
			},
		},
		{
			Title: "Retries", Unit: "reqps", Width: 12, Description: "Retries per second, and those that the retry budget did not allow.",
			Queries: []Query{
				{Expr: `sum(rate(outrigger_retries_total{SCOPE}[$__rate_interval]))`, Legend: "retries"},
				{Expr: `sum(rate(outrigger_retries_over_budget_total{SCOPE}[$__rate_interval]))`, Legend: "over budget"},
			},
		},
		{
			Title: "Calls without an answer of the backend", Unit: "reqps", Width: 12, Runbook: "OutriggerErrorBudgetBurn",
			Description: "Calls per second that did not reach the backend, broke on the way or timed out, by code.",
			Queries: []Query{{
				Expr: `sum by (code) (rate(outrigger_calls_total{SCOPE, code=~"UNAVAILABLE|TRANSPORT_ERROR|TIMEOUT"}[$__rate_interval]))`, Legend: "{{code}}",
			}},
		},
	}}
}
