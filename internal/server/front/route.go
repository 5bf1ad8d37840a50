// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// edge is one edge of the sidecar.
type edge struct {
	// name returns the edge of a request for metrics.
	name func(*http.Request) telemetry.Edge
	// paths are the paths of the edge, with their handlers; rest handles the requests of the edge without paths, which gets
	// every request that matches no other path.
	paths map[string]http.Handler
	rest  http.Handler
	// open, if set, handles the requests for which isOpen holds, in place of paths and rest. They need no authentication, and
	// pages of any origin may send them. prefix is what their paths begin with.
	open   http.Handler
	isOpen func(*http.Request) bool
	prefix string
	// refuse rejects a request in the protocol of the edge.
	refuse func(http.ResponseWriter, *http.Request, *errmap.Error)
}

// is returns a name function with the same name for all requests.
func is(name telemetry.Edge) func(*http.Request) telemetry.Edge {
	return func(*http.Request) telemetry.Edge { return name }
}

// table is a handler that routes each request to its edge. Register all edges before
// the first request; afterwards it is safe for concurrent use.
type table struct {
	mux    *http.ServeMux
	byPath map[string]*edge
	rest   *edge
	open   []*edge
}

func newTable() *table { return &table{mux: http.NewServeMux(), byPath: map[string]*edge{}} }

// register adds an edge. Exactly one of the edges must have no paths and not be open.
func (t *table) register(e *edge) {
	if e.open != nil {
		t.open = append(t.open, e)
		return
	}
	for path, handler := range e.paths {
		t.mux.Handle(path, handler)
		t.byPath[path] = e
	}
	if len(e.paths) == 0 {
		t.rest = e
		t.mux.Handle("/", e.rest)
	}
}

// openEdge returns the edge of a request that needs no authentication, or nil.
func (t *table) openEdge(r *http.Request) *edge {
	for _, e := range t.open {
		if e.isOpen(r) {
			return e
		}
	}
	return nil
}

func (t *table) isOpen(r *http.Request) bool { return t.openEdge(r) != nil }

// of is the edge of a request.
func (t *table) of(r *http.Request) *edge {
	return cmp.Or(t.openEdge(r), t.byPath[r.URL.Path], t.rest)
}

// path returns the path of a request, or what it begins with, if it is registered, and otherwise "".
func (t *table) path(r *http.Request) string {
	if e := t.openEdge(r); e != nil {
		return e.prefix
	}
	if t.byPath[r.URL.Path] != nil {
		return r.URL.Path
	}
	return ""
}

// name returns the edge of a request for metrics.
func (t *table) name(r *http.Request) telemetry.Edge { return t.of(r).name(r) }

// refuse rejects a request in the protocol of its edge.
func (t *table) refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	t.of(r).refuse(w, r, err)
}

// ServeHTTP implements [http.Handler].
func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r) {
		t.mux.ServeHTTP(w, r)
		return
	}
	if e := t.byPath[r.URL.Path]; e != nil {
		e.paths[r.URL.Path].ServeHTTP(w, r)
		return
	}
	t.rest.rest.ServeHTTP(w, r)
}

// isClean holds for paths that [http.ServeMux] would take as they are. They are nearly all,
// and its search costs more than a look into a map.
func isClean(r *http.Request) bool {
	path := r.URL.Path
	return r.Method != http.MethodConnect && r.RequestURI != "*" && r.URL.RawPath == "" &&
		strings.HasPrefix(path, "/") && !strings.Contains(path, "//") && !strings.Contains(path, "/.")
}

// isStream reports whether a request's body lasts as long as its stream.
func isStream(r *http.Request) bool {
	switch r.URL.Path {
	case outriggerv1connect.ToolServiceExchangeProcedure,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return true
	}
	return r.Context().Value(streamKey{}) != nil
}

// streamKey is the context key of requests that [marking] marks.
type streamKey struct{}

// marking marks the requests for which is returns true: for [isStream], their bodies last
// as long as their streams. Which those are depends on the catalog. It is a handler of small frame, because a stream waits on
// top of it for hours.
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

// isLasting reports whether a request stays open until one side ends it.
func isLasting(r *http.Request) bool {
	switch r.URL.Path {
	case outriggerv1connect.ToolServiceSubscribeProcedure, outriggerv1connect.ToolServiceWatchToolsProcedure:
		return true
	}
	return r.Method == http.MethodGet || isStream(r)
}
