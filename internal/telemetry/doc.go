// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up OpenTelemetry: the exporters of traces, metrics and logs, by the standard OTEL_* variables and
// the configuration. It is off unless one of them names it.
//
// [Resolve] reads the variables and the configuration, and reports everything that is wrong with them. [Open] starts the
// exporters. They run beside the pipeline: what they cannot send in time is dropped and counted, and a call never waits for
// them. The package sets nothing global, except for [Quiet].
package telemetry
