// SPDX-License-Identifier: Apache-2.0

// Package connectapi is the edge for Connect, gRPC and gRPC-Web. It serves the
// tool API (outrigger.v1.ToolService), the typed pass-through for generated
// clients of the backend's services, with validation, policy and limits, and
// health and reflection of both. Requests become neutral bridge.Requests. Errors
// become Connect errors with the canonical code in their details.
//
// The sidecar serves all of the tool API, like a backend that implements it, so
// that it can be the backend of another sidecar. RegisterTool and UnregisterTool
// are served on the admin listener only. Features that the backend does not have
// return unimplemented.
//
// Subscribe, WatchTools and Exchange are long-lived streams. Their number is
// limited, and Close ends them all. A caller that stops reading loses its
// stream; this also applies to CallToolStream.
//
// Handlers are safe for concurrent use. The package has no tool logic and opens
// no listener.
package connectapi
