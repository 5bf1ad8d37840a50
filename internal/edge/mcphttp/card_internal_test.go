// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
)

// Everyone may ask for the card, as often as they like: it is made once, and anew when what it says has changed.
func TestTheCardIsMadeOnce(t *testing.T) {
	t.Parallel()
	info := bridge.ServerInfo{Name: "fleet", Version: "1"}
	c := &Card{Server: func() bridge.ServerInfo { return info }, Versions: []string{"2026-07-28"}}
	get := func(host, want string) *cardBody {
		t.Helper()
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, CardPath, http.NoBody)
		r.Host = host
		c.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) || w.Header().Get("ETag") != c.last.Load().etag {
			t.Errorf("%s: %d %v %s", host, w.Code, w.Header(), w.Body)
		}
		return c.last.Load()
	}
	first := get("a.example", `"url":"http://a.example/mcp"`)
	if get("a.example", `"url":"http://a.example/mcp"`) != first {
		t.Error("the same card was made again")
	}
	if get("b.example", `"url":"http://b.example/mcp"`).etag == first.etag {
		t.Error("cards of two hosts have one ETag")
	}
	info.Version = "2"
	get("b.example", `"version":"2"`)
}
