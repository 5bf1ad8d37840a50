// SPDX-License-Identifier: Apache-2.0

// Package connectapi is the edge for Connect, gRPC and gRPC-Web. It serves the
// tool API (outrigger.v1.ToolService), the typed pass-through for generated
// clients of the backend's own services, with validation, policy and limits, and
// health and reflection of both. Requests become neutral bridge.Requests. Errors
// become Connect errors with the canonical code in their details.
//
// Unary calls that are plain are read and answered by the package itself
// (unary.go), everything else by the RPC library.
//
// The sidecar serves all of the tool API, as a backend would that implements it
// itself, so that it can be the backend of another sidecar. RegisterTool and
// UnregisterTool are served on the admin listener only. What is not offered,
// because the backend has none of it, answers unimplemented.
//
// Subscribe, WatchTools and Exchange are long-lived streams. Their number is
// limited, and Close ends them all. A caller that stops reading loses its
// stream, also for CallToolStream.
//
// Handlers are safe for concurrent use. The package has no tool logic and opens
// no listener.
package connectapi
