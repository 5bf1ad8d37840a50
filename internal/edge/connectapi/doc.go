// SPDX-License-Identifier: Apache-2.0

// Package connectapi is the edge for Go services and everything else that
// speaks Connect, gRPC or gRPC-Web. It serves the tool API
// (outrigger.v1.ToolService), the typed pass-through under which a caller's own
// generated client reaches the backend through the sidecar's validation, policy
// and limits, and health and reflection of both. Requests become neutral
// bridge.Requests; errors become Connect errors with the canonical code in
// their details.
//
// Unary calls that are plain are read and answered by the package itself
// (unary.go), everything else by the RPC library.
//
// The sidecar serves all of the tool API, as a backend would that implements it
// itself, so that it can be the backend of another sidecar. RegisterTool and
// UnregisterTool are served on the admin listener only. What is not offered,
// because the backend has none of it, answers unimplemented.
//
// Subscribe, WatchTools and Exchange last until somebody ends them: their number
// is bounded, and Close ends them all. A reader who stops reading loses its
// stream, that of CallToolStream included.
//
// Handlers are safe for concurrent use. The package holds no tool logic and
// opens no listener.
package connectapi
