// SPDX-License-Identifier: Apache-2.0

// Package collector runs OpenTelemetry's own receiver for OTLP on loopback, as a collector does, and keeps what arrives:
// spans, metrics and log records, each in a form that tests can compare. It also has collectors that do their work badly.
package collector
