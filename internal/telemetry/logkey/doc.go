// SPDX-License-Identifier: Apache-2.0

// Package logkey has the keys of the log that OpenTelemetry's semantic conventions or the spans of the sidecar name. A key means
// the same in a log line, in an exported log record and in a span. Keys that neither names are plain words at the place that
// writes the line; those of durations and sizes end in their unit. docs/log.md lists all keys, and a test here compares
// that list with the source.
package logkey
