// SPDX-License-Identifier: Apache-2.0

// Package connectapi is the edge for Go services and everything else that
// speaks Connect, gRPC or gRPC-Web. It serves the tool API
// (outrigger.v1.ToolService), the typed pass-through under which a caller's own
// generated client reaches the backend through the sidecar's validation, policy
// and limits, and health and reflection of both. Requests become neutral
// bridge.Requests; errors become Connect errors with the canonical code in
// their details.
//
// Subscribe and WatchTools last until somebody ends them: their number is
// bounded, a reader who stops reading loses its stream, and Close ends them all.
//
// Handlers are safe for concurrent use. The package holds no tool logic and
// opens no listener.
package connectapi
