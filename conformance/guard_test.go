// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// paths are those of one listener, and one that nothing serves.
func mainPaths() []string {
	return []string{
		"/mcp", "/rpc", "/outrigger.v1.ToolService/CallTool", "/outrigger.v1.ToolService/Exchange", procEcho,
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/", "/nothing/here",
	}
}

func adminPaths() []string {
	return []string{"/livez", "/readyz", "/startupz", "/metrics", "/drain", "/debug/pprof/", "/", "/nothing"}
}

// TestForeignPagesAreRefused sends what a web page would send, to every path of
// every listener, with every method.
func TestForeignPagesAreRefused(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	own := server.Addr()
	rows := []struct {
		name, host string
		origins    []string
	}{
		{name: "foreign host", host: "evil.example.com"},
		{name: "foreign host with our port", host: "evil.example.com" + own[strings.LastIndex(own, ":"):]},
		{name: "foreign origin", origins: []string{"https://evil.example.com"}},
		{name: "origin null", origins: []string{"null"}},
		{name: "origin empty", origins: []string{""}},
		{name: "two origins", origins: []string{"http://" + own, "https://evil.example.com"}},
		{name: "two equal origins", origins: []string{"http://" + own, "http://" + own}},
		{name: "our host as origin of another port", origins: []string{"http://127.0.0.1:1"}},
		{name: "both", host: "evil.example.com", origins: []string{"http://evil.example.com"}},
	}
	urls := map[string]string{}
	for _, path := range mainPaths() {
		urls["main "+path] = server.URL(path)
	}
	for _, path := range adminPaths() {
		urls["admin "+path] = server.AdminURL(path)
	}
	wrong := 0
	for _, row := range rows {
		for where, url := range urls {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodOptions, http.MethodDelete} {
				req := request(t, method, url, strings.NewReader("{}"))
				if method == http.MethodOptions {
					req.Header.Set("Access-Control-Request-Method", "POST")
				}
				if row.host != "" {
					req.Host = row.host
				}
				req.Header["Origin"] = row.origins
				got := send(t, req)
				allowed := got.header.Get("Access-Control-Allow-Origin")
				if got.status == http.StatusForbidden && allowed == "" {
					continue
				}
				// Where one path lets a page in, most do: the first few tell.
				t.Errorf("%s, %s %s: %d, want 403, CORS %q: %.100s", row.name, method, where, got.status, allowed, got.body)
				if wrong++; wrong == 10 {
					t.FailNow()
				}
			}
		}
	}
	if status, body := server.Probe(t, "/readyz"); status != http.StatusOK {
		t.Errorf("a refused /drain drained: %d %s", status, body)
	}
}

// TestOwnPagesAreServed is the other half: names of loopback, and what the
// operator has allowed.
func TestOwnPagesAreServed(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo", "--allowed-hosts", "tools.test", "--allowed-origins", "https://console.test")
	port := server.Addr()[strings.LastIndex(server.Addr(), ":"):]
	const ping = `{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}`
	for _, row := range []struct{ host, origin string }{
		{}, {host: "localhost" + port}, {host: "[::1]" + port}, {host: "localhost:80"}, {host: "tools.test"}, {host: "TOOLS.test" + port},
		{origin: "http://" + server.Addr()}, {host: "localhost" + port, origin: "http://localhost" + port},
		{origin: "https://console.test"}, {host: "tools.test", origin: "https://console.test"},
	} {
		req := request(t, http.MethodPost, server.URL("/rpc"), strings.NewReader(ping))
		req.Host = row.host
		if row.origin != "" {
			req.Header.Set("Origin", row.origin)
		}
		got := send(t, req)
		if got.status != http.StatusOK || got.header.Get("Access-Control-Allow-Origin") != row.origin {
			t.Errorf("host %q, origin %q: %d, CORS %q: %s", row.host, row.origin, got.status, got.header.Get("Access-Control-Allow-Origin"), got.body)
		}
	}
	preflight := request(t, http.MethodOptions, server.URL("/mcp"), nil)
	preflight.Header.Set("Origin", "https://console.test")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	got := send(t, preflight)
	if got.status != http.StatusNoContent || !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Mcp-Name") {
		t.Errorf("preflight: %d %v", got.status, got.header)
	}
}
