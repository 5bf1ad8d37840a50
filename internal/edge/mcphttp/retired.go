// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"net/http"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/httpbody"
)

// versionRetired is the revision whose transport has one endpoint for events and
// one for messages.
const versionRetired = "2024-11-05"

// RetiredPaths returns the usual paths of the two endpoints of 2024-11-05 servers.
// The sidecar does not offer that transport: its clients support newer ones too, and
// it knows neither sessions that end nor resumable streams. These clients get an
// explanation instead; see [Handler.Retired].
func RetiredPaths() []string { return []string{"/sse", "/message", "/messages", "/messages/"} }

// Retired returns the handler for these paths. It responds with a 404 that names the
// replacement.
func (h *Handler) Retired() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &dialect.Inbound{
			Dialect: dialect.Legacy, Header: r.Header,
			Caller: bridge.CallerOf(r.Context(), r.RemoteAddr), Transport: "http", Route: r.URL.Path,
			HTTP: h.rpc.Request(r.Context()),
		}
		err := errmap.UnsupportedVersion(versionRetired, dialect.Versions())
		errmap.Message("The transport of MCP " + versionRetired + " (HTTP with SSE) is not offered; POST initialize to " + Path + " (Streamable HTTP)")(err)
		reply := h.rpc.Refuse(in, err)
		reply.Status = http.StatusNotFound
		httpbody.Write(w, reply)
	})
}
