// SPDX-License-Identifier: Apache-2.0

// Package route finds the edge of a request. Each edge registers its name, its paths
// and how it rejects a request. The listener's guard, the authenticator and the
// metrics all use the same [Table].
package route

import (
	"context"
	"net/http"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Edge is one edge of the sidecar.
type Edge struct {
	// Name returns the edge of a request for metrics.
	Name func(*http.Request) telemetry.Edge
	// Paths are the paths of the edge, with their handlers. An edge without paths gets
	// every request that matches no other path.
	Paths map[string]http.Handler
	// Rest handles the requests of an edge without paths.
	Rest http.Handler
	// Open, if set, handles the requests for which IsOpen holds, in place of Paths and Rest.
	// They need no authentication, and pages of any origin may send them.
	Open   http.Handler
	IsOpen func(*http.Request) bool
	// Prefix is what the paths begin with for which IsOpen holds.
	Prefix string
	// Refuse rejects a request in the protocol of the edge.
	Refuse func(http.ResponseWriter, *http.Request, *errmap.Error)
}

// Is returns a Name function with the same name for all requests.
func Is(name telemetry.Edge) func(*http.Request) telemetry.Edge {
	return func(*http.Request) telemetry.Edge { return name }
}

// Table is a handler that routes each request to its edge. Register all edges before
// the first request; afterwards it is safe for concurrent use.
type Table struct {
	mux    *http.ServeMux
	byPath map[string]*Edge
	rest   *Edge
	open   []*Edge
}

// NewTable returns a table without edges.
func NewTable() *Table { return &Table{mux: http.NewServeMux(), byPath: map[string]*Edge{}} }

// Register adds an edge. Exactly one of the edges must have no paths and not be open.
func (t *Table) Register(e *Edge) {
	if e.Open != nil {
		t.open = append(t.open, e)
		return
	}
	for path, handler := range e.Paths {
		t.mux.Handle(path, handler)
		t.byPath[path] = e
	}
	if len(e.Paths) == 0 {
		t.rest = e
		t.mux.Handle("/", e.Rest)
	}
}

// Open returns the handler of a request that needs no authentication, or nil.
func (t *Table) Open(r *http.Request) http.Handler {
	for _, e := range t.open {
		if e.IsOpen(r) {
			return e.Open
		}
	}
	return nil
}

// of is the edge of a request.
func (t *Table) of(r *http.Request) *Edge {
	for _, e := range t.open {
		if e.IsOpen(r) {
			return e
		}
	}
	if e := t.byPath[r.URL.Path]; e != nil {
		return e
	}
	return t.rest
}

// Path returns the path of a request, or what it begins with, if it is registered, and otherwise "".
func (t *Table) Path(r *http.Request) string {
	for _, e := range t.open {
		if e.IsOpen(r) {
			return e.Prefix
		}
	}
	if t.byPath[r.URL.Path] != nil {
		return r.URL.Path
	}
	return ""
}

// Name returns the edge of a request for metrics.
func (t *Table) Name(r *http.Request) telemetry.Edge { return t.of(r).Name(r) }

// Refuse rejects a request in the protocol of its edge.
func (t *Table) Refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	t.of(r).Refuse(w, r, err)
}

// ServeHTTP implements [http.Handler].
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r) {
		t.mux.ServeHTTP(w, r)
		return
	}
	if e := t.byPath[r.URL.Path]; e != nil {
		e.Paths[r.URL.Path].ServeHTTP(w, r)
		return
	}
	t.rest.Rest.ServeHTTP(w, r)
}

// isClean holds for paths that [http.ServeMux] would take as they are. They are nearly all,
// and its search costs more than a look into a map.
func isClean(r *http.Request) bool {
	path := r.URL.Path
	return r.Method != http.MethodConnect && r.RequestURI != "*" && r.URL.RawPath == "" &&
		strings.HasPrefix(path, "/") && !strings.Contains(path, "//") && !strings.Contains(path, "/.")
}

// IsStream reports whether a request's body lasts as long as its stream.
func IsStream(r *http.Request) bool {
	switch r.URL.Path {
	case outriggerv1connect.ToolServiceExchangeProcedure,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return true
	}
	return r.Context().Value(streamKey{}) != nil
}

// streamKey is the context key of requests of [Streaming].
type streamKey struct{}

// Streaming marks the requests for which is returns true: for [IsStream], their bodies last
// as long as their streams. Which those are depends on the catalog.
func Streaming(next http.Handler, is func(*http.Request) bool) http.Handler {
	return &marking{next: next, is: is}
}

// marking is a handler of small frame, because a stream waits on top of it for hours.
type marking struct {
	next http.Handler
	is   func(*http.Request) bool
}

// ServeHTTP implements [http.Handler].
func (m *marking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.next.ServeHTTP(w, m.marked(r))
}

// marked is apart so that its temporaries are not in the frame of ServeHTTP, on top of which streams wait.
//
//go:noinline
func (m *marking) marked(r *http.Request) *http.Request {
	if m.is(r) {
		return r.WithContext(context.WithValue(r.Context(), streamKey{}, true))
	}
	return r
}

// IsLasting reports whether a request stays open until one side ends it.
func IsLasting(r *http.Request) bool {
	switch r.URL.Path {
	case outriggerv1connect.ToolServiceSubscribeProcedure, outriggerv1connect.ToolServiceWatchToolsProcedure:
		return true
	}
	return r.Method == http.MethodGet || IsStream(r)
}
