// SPDX-License-Identifier: Apache-2.0

package board

func content() Row {
	return Row{"Catalog and configuration", []Panel{
		{
			Title: "Tools", Unit: "short", Description: "Tools visible to callers, by instance. Instances of one version should agree.",
			Queries: []Query{{Expr: `outrigger_catalog_tools{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "Failed loads", Unit: "short", Warn: 3, Runbook: "OutriggerCatalogStale", Description: "Failed loads of the catalog since the last success, by instance.",
			Queries: []Query{{Expr: `outrigger_catalog_load_failures{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "Age of the catalog", Unit: "s", Description: "Time since the last successful load of the catalog, by instance.",
			Queries: []Query{{Expr: `time() - (outrigger_catalog_loaded_timestamp_seconds{SCOPE} > 0)`, Legend: "{{instance}}"}},
		},
		{
			Title: "Loads and breaking changes", Unit: "short", Runbook: "OutriggerBreakingChange",
			Description: "Loads of the catalog, and breaking schema changes under an unchanged major version, in the interval.",
			Queries: []Query{
				{Expr: `sum(increase(outrigger_catalog_loads_total{SCOPE}[$__rate_interval]))`, Legend: "loads"},
				{Expr: `sum(increase(outrigger_catalog_breaking_changes_total{SCOPE}[$__rate_interval]))`, Legend: "breaking changes"},
			},
		},
		{
			Title: "Reloads of files", Unit: "short", Description: "Reloads that changed or refused something, by files and outcome, in the interval.",
			Queries: []Query{{
				Expr: `sum by (files, outcome) (increase(outrigger_reloads_total{SCOPE, outcome!="unchanged"}[$__rate_interval]))`, Legend: "{{files}} {{outcome}}",
			}},
		},
		{
			Title: "Content that is not in use", Unit: "short", Runbook: "OutriggerReloadFailing",
			Description: "Files that cannot be loaded, changed fields that need a restart, and tools that are disabled because a policy rule does not fit them.",
			Queries: []Query{
				{Expr: `sum by (files) (outrigger_reload_failing{SCOPE})`, Legend: "{{files}} failing"},
				{Expr: `sum(outrigger_reload_refused_changes{SCOPE})`, Legend: "needs a restart"},
				{Expr: `sum(outrigger_policy_disabled_tools{SCOPE})`, Legend: "disabled tools"},
			},
		},
	}}
}

func trails() Row {
	return Row{"Audit trail and run records", []Panel{
		{
			Title: "Lines", Unit: "ops", Description: "Lines per second written to the audit trail and to the run records.",
			Queries: []Query{
				{Expr: `sum(rate(outrigger_audit_lines_written_total{SCOPE}[$__rate_interval]))`, Legend: "audit"},
				{Expr: `sum(rate(outrigger_record_lines_written_total{SCOPE}[$__rate_interval]))`, Legend: "records"},
			},
		},
		{
			Title: "Lost lines and refused calls", Unit: "ops", Runbook: "OutriggerAuditFailing",
			Description: "Lines per second that were lost, failed file operations, and calls that were rejected because they could not be recorded.",
			Queries: []Query{
				{Expr: `sum(rate(outrigger_audit_lines_dropped_total{SCOPE}[$__rate_interval]))`, Legend: "audit, lost"},
				{Expr: `sum(rate(outrigger_audit_errors_total{SCOPE}[$__rate_interval]))`, Legend: "audit, errors"},
				{Expr: `sum(rate(outrigger_audit_calls_refused_total{SCOPE}[$__rate_interval]))`, Legend: "calls refused"},
				{Expr: `sum(rate(outrigger_record_lines_dropped_total{SCOPE}[$__rate_interval]))`, Legend: "records, lost"},
				{Expr: `sum(rate(outrigger_record_errors_total{SCOPE}[$__rate_interval]))`, Legend: "records, errors"},
			},
		},
		{
			Title: "Disk of the audit trail", Unit: "s", Description: "99th percentile of the duration of fsync, by instance.",
			Queries: []Query{{
				Expr: `histogram_quantile(0.99, sum by (instance, le) (rate(outrigger_audit_fsync_seconds_bucket{SCOPE}[$__rate_interval])))`, Legend: "{{instance}}",
			}},
		},
		{
			Title: "Waiting for the disk", Unit: "bytes", Width: 12, Description: "Bytes of the audit trail that wait for the disk, by instance.",
			Queries: []Query{{Expr: `outrigger_audit_queued_bytes{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "Records in memory", Unit: "short", Width: 12, Description: "Envelopes without an outcome, lines that wait for an earlier one, and lines that wait for the disk.",
			Queries: []Query{
				{Expr: `sum(outrigger_record_entries_open{SCOPE})`, Legend: "open"},
				{Expr: `sum(outrigger_record_lines_held{SCOPE})`, Legend: "held"},
				{Expr: `sum(outrigger_record_lines_queued{SCOPE})`, Legend: "queued"},
			},
		},
	}}
}

func telemetry() Row {
	return Row{"Telemetry", []Panel{
		{
			Title: "Exports", Unit: "ops", Runbook: "OutriggerTelemetryFailing", Description: "Exports per second to the OpenTelemetry collector, by signal and outcome. Empty without a collector.",
			Queries: []Query{{Expr: `sum by (signal, outcome) (rate(outrigger_telemetry_exports_total{SCOPE}[$__rate_interval]))`, Legend: "{{signal}} {{outcome}}"}},
		},
		{
			Title: "Lost spans, metrics and log records", Unit: "ops", Runbook: "OutriggerTelemetryFailing",
			Description: "Items per second that were not exported, by signal and reason. Calls do not wait for exports.",
			Queries:     []Query{{Expr: `sum by (signal, reason) (rate(outrigger_telemetry_items_dropped_total{SCOPE}[$__rate_interval]))`, Legend: "{{signal}} {{reason}}"}},
		},
		{
			Title: "Waiting for export", Unit: "bytes", Description: "Estimated bytes of the spans and log records that wait for export, by signal.",
			Queries: []Query{{Expr: `sum by (signal) (outrigger_telemetry_queued_bytes{SCOPE})`, Legend: "{{signal}}"}},
		},
		{
			Title: "Log lines that were left out", Unit: "ops", Width: 12, Description: "Calls per second that were not logged because of log.max_calls_per_second.",
			Queries: []Query{{Expr: `sum by (instance) (rate(outrigger_log_calls_skipped_total{SCOPE}[$__rate_interval]))`, Legend: "{{instance}}"}},
		},
		{
			Title: "Events", Unit: "ops", Width: 12, Description: "Events per second on the event bus, and slow subscribers that were disconnected.",
			Queries: []Query{
				{Expr: `sum(rate(outrigger_events_published_total{SCOPE}[$__rate_interval]))`, Legend: "published"},
				{Expr: `sum(rate(outrigger_event_subscribers_dropped_total{SCOPE}[$__rate_interval]))`, Legend: "subscribers dropped"},
			},
		},
	}}
}

func process() Row {
	return Row{"Process", []Panel{
		{
			Title: "CPU", Unit: "short", Description: "CPU cores in use, by instance.",
			Queries: []Query{{Expr: `rate(process_cpu_seconds_total{SCOPE}[$__rate_interval])`, Legend: "{{instance}}"}},
		},
		{
			Title: "Memory", Unit: "bytes", Description: "Resident memory and live heap, by instance.",
			Queries: []Query{
				{Expr: `process_resident_memory_bytes{SCOPE}`, Legend: "{{instance}} resident"},
				{Expr: `go_memstats_heap_inuse_bytes{SCOPE}`, Legend: "{{instance}} heap"},
			},
		},
		{
			Title: "Goroutines", Unit: "short", Description: "Goroutines, by instance. A number that only grows is a leak.",
			Queries: []Query{{Expr: `go_goroutines{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "File descriptors", Unit: "percentunit", Description: "Open file descriptors, as a part of the maximum, by instance.",
			Queries: []Query{{Expr: `process_open_fds{SCOPE} / process_max_fds{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "Versions", Unit: "short", IsStacked: true, Runbook: "OutriggerVersionsDiffer", Description: "Sidecars by version and by the version of Go.",
			Queries: []Query{{Expr: `count by (version, go_version) (outrigger_build_info{SCOPE})`, Legend: "{{version}}, {{go_version}}"}},
		},
		{
			Title: "Up since", Unit: "s", Runbook: "OutriggerRestarting", Description: "Time since the process started, by instance.",
			Queries: []Query{{Expr: `time() - process_start_time_seconds{SCOPE}`, Legend: "{{instance}}"}},
		},
		{
			Title: "Certificate of the listener", Unit: "s", Runbook: "OutriggerCertificateExpiring", Description: "Time until the certificate of the main listener expires. Empty without TLS.",
			Queries: []Query{{Expr: `outrigger_tls_certificate_expiry_timestamp_seconds{SCOPE} - time()`, Legend: "{{instance}}"}},
		},
	}}
}
