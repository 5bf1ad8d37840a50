// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/tally"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// refused is what a caller is told whose message never became a request. It is
// counted like one that the JSON-RPC edges refuse.
func (s *Service) refused(protocol string, err *errmap.Error, about errmap.About) *connect.Error {
	return s.refusedAt(tally.EdgeOf(protocol, "", false), err, about)
}

// refusedAt is refused at an edge that is known.
func (s *Service) refusedAt(edge tally.Edge, err *errmap.Error, about errmap.About) *connect.Error {
	counts := s.bridge.Tally()
	counts.Operation(int(bridge.OpInvalid)).Count(edge, err.Code)
	counts.Over(err.Limit)
	return errmap.ToConnect(err, about)
}

// edgeOf is the edge that a request is for, by its content type.
func edgeOf(r *http.Request, isTyped bool) tally.Edge {
	kind := r.Header.Get("Content-Type")
	switch {
	case isTyped:
		return tally.EdgeTyped
	case strings.HasPrefix(kind, "application/grpc-web"):
		return tally.EdgeGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return tally.EdgeGRPC
	}
	return tally.EdgeConnect
}
