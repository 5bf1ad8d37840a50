// SPDX-License-Identifier: Apache-2.0

package front

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// answer is a handler that says its name.
func answer(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

// TestTheThreeAgree: the edge that handles a request is the one that it is counted for,
// and the one that refuses it.
func TestTheThreeAgree(t *testing.T) {
	t.Parallel()
	refuse := func(name string) func(http.ResponseWriter, *http.Request, *errmap.Error) {
		return func(w http.ResponseWriter, _ *http.Request, _ *errmap.Error) { _, _ = io.WriteString(w, name) }
	}
	table := newTable()
	table.register(&edge{
		name: is(telemetry.EdgeMCP), paths: map[string]http.Handler{"/mcp": answer("mcp"), "/sse": answer("mcp")}, refuse: refuse("mcp"),
	})
	table.register(&edge{name: is(telemetry.EdgeRPC), paths: map[string]http.Handler{"/rpc": answer("rpc")}, refuse: refuse("rpc")})
	table.register(&edge{
		name: is(telemetry.EdgeAdmin), refuse: refuse("admin"), open: answer("admin"),
		isOpen: func(r *http.Request) bool { return r.URL.Path == "/.well-known/x" },
	})
	table.register(&edge{name: is(telemetry.EdgeOther), rest: answer("other"), refuse: refuse("other")})
	for _, path := range []string{"/.well-known/x", "/.well-known/%78"} { // as handlers of open paths see it
		r, got := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		if open := table.openEdge(r); open == nil || table.name(r) != telemetry.EdgeAdmin {
			t.Errorf("%s is not open", path)
		} else if open.open.ServeHTTP(got, r); got.Body.String() != "admin" {
			t.Errorf("%s is handled by %s", path, got.Body)
		}
	}
	for path, want := range map[string]string{"/mcp": "mcp", "/sse": "mcp", "/rpc": "rpc", "/rpc/": "other", "/shop.v1.Shop/Buy": "other"} {
		r := httptest.NewRequest(http.MethodPost, path, nil)
		if table.openEdge(r) != nil {
			t.Errorf("%s is open", path)
		}
		handled, refused := httptest.NewRecorder(), httptest.NewRecorder()
		table.ServeHTTP(handled, r)
		table.refuse(refused, r, errmap.New(errmap.Unauthenticated))
		if got := table.name(r).String(); handled.Body.String() != want || refused.Body.String() != want || got != want {
			t.Errorf("%s is handled by %s, refused by %s, counted for %s; want %s", path, handled.Body, refused.Body, got, want)
		}
	}
}

// TestPathsAreThoseOfTheMux: a path that is found without the mux is found as by it, and what
// the mux changes or redirects is left to it.
func TestPathsAreThoseOfTheMux(t *testing.T) {
	t.Parallel()
	table, mux := newTable(), http.NewServeMux()
	table.register(&edge{name: is(telemetry.EdgeMCP), paths: map[string]http.Handler{"/mcp": answer("mcp")}})
	table.register(&edge{name: is(telemetry.EdgeOther), rest: answer("other")})
	mux.Handle("/mcp", answer("mcp"))
	mux.Handle("/", answer("other"))
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodConnect, http.MethodOptions} {
		for _, path := range []string{"/mcp", "/mcp/", "//mcp", "/./mcp", "/a/../mcp", "/mcp/..", "/%6dcp", "/mcp%2F", "/x/y", "/x//y", "/", "/.well-known/x", "/mcp?a=b"} {
			want, got := httptest.NewRecorder(), httptest.NewRecorder()
			mux.ServeHTTP(want, httptest.NewRequest(method, path, nil))
			table.ServeHTTP(got, httptest.NewRequest(method, path, nil))
			if want.Code != got.Code || want.Body.String() != got.Body.String() || want.Header().Get("Location") != got.Header().Get("Location") {
				t.Errorf("%s %s: %d %s, want %d %s", method, path, got.Code, got.Body, want.Code, want.Body)
			}
		}
	}
}
