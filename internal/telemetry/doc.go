// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up OpenTelemetry: the exporters of traces, metrics and logs, by the standard OTEL_* variables and
// the configuration. It is off unless one of them names it.
package telemetry
