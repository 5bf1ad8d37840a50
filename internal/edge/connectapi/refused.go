// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// refused is what a caller is told whose message never became a request. It is
// counted like one that the JSON-RPC edges refuse.
func (s *Service) refused(protocol string, err *errmap.Error, about errmap.About) *connect.Error {
	return s.refusedAt(stats.EdgeOf(protocol, "", false), err, about)
}

// refusedAt is refused at an edge that is known.
func (s *Service) refusedAt(edge stats.Edge, err *errmap.Error, about errmap.About) *connect.Error {
	counts := s.bridge.Stats()
	counts.Operation(int(bridge.OpInvalid)).Count(edge, err.Code)
	counts.Over(err.Limit)
	return errmap.ToConnect(err, about)
}

// EdgeOf returns the edge of a request that is refused before it is read. It knows only
// the request's path and content type.
func EdgeOf(r *http.Request) stats.Edge {
	edge := edgeOf(r, false)
	if edge == stats.EdgeConnect && !strings.HasPrefix(r.URL.Path, "/"+outriggerv1connect.ToolServiceName+"/") {
		return stats.EdgeOther
	}
	return edge
}

// edgeOf is the edge that a request is for, by its content type.
func edgeOf(r *http.Request, isTyped bool) stats.Edge {
	kind := r.Header.Get("Content-Type")
	switch {
	case isTyped:
		return stats.EdgeTyped
	case strings.HasPrefix(kind, "application/grpc-web"):
		return stats.EdgeGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return stats.EdgeGRPC
	}
	return stats.EdgeConnect
}
