// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestTheTransportOf2024IsNotOffered, and its clients are told what is, on the
// paths that they try.
func TestTheTransportOf2024IsNotOffered(t *testing.T) {
	t.Parallel()
	b := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	handler := mcphttp.New(b, mcphttp.Options{})
	mux := http.NewServeMux()
	mux.Handle(mcphttp.Path, handler)
	for _, path := range mcphttp.RetiredPaths() {
		mux.Handle(path, handler.Retired())
	}
	url := mcptest.Serve(t, mux)
	for _, tc := range []struct{ method, path string }{
		{http.MethodGet, "/sse"}, {http.MethodPost, "/sse"}, {http.MethodPost, "/message?sessionId=7"},
		{http.MethodPost, "/messages?sessionId=7"}, {http.MethodPost, "/messages/?session_id=7"},
	} {
		got := send(t, tc.method, url+tc.path, opening("2024-11-05", `{}`), "Accept: text/event-stream")
		if got.status != 404 || got.errorCode() != -32600 || !strings.Contains(got.body, "POST initialize to /mcp") || !slices.Equal(got.Error.Data.Supported, dialect.Versions()) {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, got.status, got.body)
		}
	}
	// Where it is asked to go, it can.
	if got := post(t, url+mcphttp.Path, opening("2024-11-05", `{}`)); got.status != 200 || !strings.Contains(got.body, rev11) {
		t.Errorf("got %d %s", got.status, got.body)
	}
}
