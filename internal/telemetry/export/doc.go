// SPDX-License-Identifier: Apache-2.0

// Package export serves the Prometheus page, and exports traces, metrics and logs by OpenTelemetry.
//
// The parts of the pipeline count for themselves, and a scrape of the [Page] or an export reads their counters. Without either, the
// package does nothing.
//
// Exporters are off unless a standard OTEL_* variable or the configuration names them. [Resolve] reads both, and reports everything
// that is wrong with them. [Open] starts the exporters. They run beside the pipeline: what they cannot send in time is dropped and
// counted, and a call never waits for them. The package sets nothing global, except for [Quiet].
package export
