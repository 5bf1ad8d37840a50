// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"context"
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

// counted counts what the RPC library refuses by itself: other methods and types
// of content, and messages over the read limit. A request that is answered well
// costs some lookups in its headers here, and no memory.
func (s *Service) counted(isTyped bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge := edgeOf(r, isTyped)
		counts := s.bridge.Tally()
		if isGRPC(r) || s.isSmall(r) {
			next.ServeHTTP(w, r)
			s.countHeader(edge, w.Header())
			return
		}
		// Only the status of a unary Connect response tells, and that is gone once it
		// is written.
		watched := &statusWatcher{ResponseWriter: w}
		next.ServeHTTP(watched, r)
		s.countHeader(edge, w.Header())
		if watched.isReadLimit {
			counts.Over(errmap.LimitMessageBytes)
			counts.HTTPRefused(edge, errmap.PayloadTooLarge)
		}
	})
}

// isSmall holds for a body that announces itself, and cannot be over the limit.
func (s *Service) isSmall(r *http.Request) bool {
	return r.ContentLength >= 0 && r.ContentLength <= int64(s.opts.Limits.MaxBytes) && r.Header["Content-Encoding"] == nil
}

// countHeader counts what the header of a response shows. Errors of the sidecar
// have details, the read limit of the library has none.
func (s *Service) countHeader(edge tally.Edge, h http.Header) {
	counts := s.bridge.Tally()
	switch {
	case h["Accept-Post"] != nil && h["Content-Type"] == nil:
		counts.HTTPRefused(edge, errmap.UnsupportedMediaType)
	case h["Allow"] != nil && h["Content-Type"] == nil:
		counts.HTTPRefused(edge, errmap.MethodNotAllowed)
	case isReadLimit(h[trailerStatus], h[trailerDetails]), isReadLimit(h[headerStatus], h[headerDetails]):
		counts.Over(errmap.LimitMessageBytes)
		counts.HTTPRefused(edge, errmap.PayloadTooLarge)
	}
}

// How the status of a call stands in the header of a response: as trailers that
// net/http will write, or, in gRPC-Web, as headers.
const (
	headerStatus   = "Grpc-Status"
	headerDetails  = "Grpc-Status-Details-Bin"
	trailerStatus  = http.TrailerPrefix + headerStatus
	trailerDetails = http.TrailerPrefix + headerDetails
)

// isReadLimit holds for RESOURCE_EXHAUSTED without details.
func isReadLimit(status, details []string) bool {
	return len(status) == 1 && status[0] == "8" && details == nil
}

// statusWatcher finds the read limit in a unary Connect response: 429 without
// details.
type statusWatcher struct {
	http.ResponseWriter

	status      int
	isReadLimit bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWatcher) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter]. An error is written at once.
func (w *statusWatcher) Write(p []byte) (int, error) {
	if w.status == http.StatusTooManyRequests {
		w.isReadLimit = !bytes.Contains(p, []byte(`"details"`))
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher], which streams need.
func (w *statusWatcher) Flush() {
	// What cannot flush writes at once.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (w *statusWatcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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

func isGRPC(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// streamLimits counts messages over the read limit on Connect's streams, whose
// errors show in the body alone.
type streamLimits struct{ service *Service }

// WrapUnary implements [connect.Interceptor].
func (streamLimits) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements [connect.Interceptor].
func (streamLimits) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (l streamLimits) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if conn.Peer().Protocol != connect.ProtocolConnect {
			return next(ctx, conn)
		}
		return next(ctx, limitedConn{conn, l.service})
	}
}

// limitedConn counts what cannot be received.
type limitedConn struct {
	connect.StreamingHandlerConn

	service *Service
}

// Receive implements [connect.StreamingHandlerConn].
func (c limitedConn) Receive(message any) error {
	err := c.StreamingHandlerConn.Receive(message)
	if err != nil && connect.CodeOf(err) == connect.CodeResourceExhausted {
		c.service.bridge.Tally().Over(errmap.LimitMessageBytes)
		c.service.bridge.Tally().HTTPRefused(tally.EdgeConnect, errmap.PayloadTooLarge)
	}
	return err
}
