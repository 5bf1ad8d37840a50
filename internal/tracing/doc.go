// SPDX-License-Identifier: Apache-2.0

// Package tracing makes the spans of requests, by OpenTelemetry's semantic conventions for MCP and for RPCs.
//
// An edge starts a [Span] for each message that it reads, and ends it with the reply. What happens in between adds to it:
// steps that take time, attempts to call the backend, links to other traces. Everything works on a nil [Tracer] and a nil
// [Span], and costs nothing then. The exporters are set up in package telemetry.
package tracing
