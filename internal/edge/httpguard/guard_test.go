// SPDX-License-Identifier: Apache-2.0

package httpguard_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paths are all kinds of paths: the guard knows none of them.
var paths = []string{"/mcp", "/rpc", "/", "/outrigger.v1.ToolService/CallTool", "/grpc.health.v1.Health/Check", "/livez", "/metrics", "/nothing"}

// send asks a guarded handler and returns the answer; the handler says 204.
func send(t *testing.T, o httpguard.Options, method, path, host string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	guard, err := httpguard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })).ServeHTTP(w, r)
	return w
}

func TestHost(t *testing.T) {
	t.Parallel()
	listed := []string{"Sidecar.Test", "other.test:8080", "[fd00::1]", "fd00::2"}
	for _, tc := range []struct {
		name     string
		host     string
		loopback int
	}{
		{"loopback address", "127.0.0.1:8080", 204},
		{"loopback address without a port", "127.0.0.1", 204},
		{"another address of the loopback network", "127.8.9.10:1", 204},
		{"another port, as port forwarding has it", "localhost:9999", 204},
		{"localhost in capitals", "LOCALHOST:8080", 204},
		{"IPv6 loopback", "[::1]:8080", 204},
		{"IPv6 loopback without a port", "[::1]", 204},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]:80", 204},
		{"a listed name on any port", "sidecar.test:1234", 204},
		{"a listed name without a port", "SIDECAR.TEST", 204},
		{"a listed name and port", "other.test:8080", 204},
		{"a listed name on another port", "other.test:8081", 403},
		{"a listed address in brackets", "[fd00::1]:8080", 204},
		{"a listed address without brackets", "[fd00::2]:8080", 204},
		{"a foreign name", "evil.example.com", 403},
		{"a foreign name on the right port", "evil.example.com:8080", 403},
		{"a name that begins like loopback", "127.0.0.1.evil.example.com", 403},
		{"a name that begins like localhost", "localhost.evil.example.com", 403},
		{"a name that ends like a listed one", "notsidecar.test", 403},
		{"a foreign address", "192.0.2.1:8080", 403},
		{"a foreign IPv6 address", "[2001:db8::1]:8080", 403},
		{"any address", "0.0.0.0:8080", 403},
		{"nothing", "", 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, path := range paths {
				for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodOptions} {
					if w := send(t, httpguard.Options{Loopback: true, AllowedHosts: listed}, method, path, tc.host, nil); w.Code != tc.loopback {
						t.Errorf("%s %s on loopback: %d, want %d", method, path, w.Code, tc.loopback)
					}
					if w := send(t, httpguard.Options{AllowedHosts: listed}, method, path, tc.host, nil); w.Code != 204 {
						t.Errorf("%s %s beyond loopback: %d, want 204: Host is not checked there", method, path, w.Code)
					}
				}
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	listed := []string{"https://Console.Example", "http://console.example:3000", "vscode-webview://panel"}
	for _, tc := range []struct {
		name    string
		host    string
		origins []string
		// The statuses on a loopback listener, on another one, on another one
		// that lists the host, and with "*".
		loopback, open, openListed, any int
	}{
		{"none", "localhost:8080", nil, 204, 204, 204, 204},
		{"the listener's own", "localhost:8080", []string{"http://localhost:8080"}, 204, 403, 204, 204},
		{"https on a plain listener", "localhost:8080", []string{"https://localhost:8080"}, 403, 403, 403, 204},
		{"its own address", "127.0.0.1:8080", []string{"http://127.0.0.1:8080"}, 204, 403, 403, 204},
		{"its own IPv6 address", "[::1]:8080", []string{"http://[::1]:8080"}, 204, 403, 403, 204},
		{"its own in capitals", "LocalHost:8080", []string{"HTTP://LOCALHOST:8080"}, 204, 403, 204, 204},
		{"another port", "localhost:8080", []string{"http://localhost:3000"}, 403, 403, 403, 204},
		{"no port", "localhost:8080", []string{"http://localhost"}, 403, 403, 403, 204},
		{"another loopback name", "127.0.0.1:8080", []string{"http://localhost:8080"}, 403, 403, 403, 204},
		{"its own with another scheme", "localhost:8080", []string{"ftp://localhost:8080"}, 403, 403, 403, 204},
		{"a listed one", "localhost:8080", []string{"https://console.example"}, 204, 204, 204, 204},
		{"a listed one with its port", "localhost:8080", []string{"http://console.example:3000"}, 204, 204, 204, 204},
		{"a listed one of another kind", "localhost:8080", []string{"vscode-webview://panel"}, 204, 204, 204, 204},
		{"a listed one with another scheme", "localhost:8080", []string{"http://console.example"}, 403, 403, 403, 204},
		{"a listed one with another port", "localhost:8080", []string{"https://console.example:444"}, 403, 403, 403, 204},
		{"a foreign one", "localhost:8080", []string{"https://evil.example.com"}, 403, 403, 403, 204},
		{"null", "localhost:8080", []string{"null"}, 403, 403, 403, 403},
		{"empty", "localhost:8080", []string{""}, 403, 403, 403, 403},
		{"twice", "localhost:8080", []string{"http://localhost:8080", "http://localhost:8080"}, 403, 403, 403, 403},
		{"its own and a foreign one", "localhost:8080", []string{"http://localhost:8080", "https://evil.example.com"}, 403, 403, 403, 403},
		{"two in one line", "localhost:8080", []string{"http://localhost:8080, https://evil.example.com"}, 403, 403, 403, 403},
		{"a path behind its own", "localhost:8080", []string{"http://localhost:8080/"}, 403, 403, 403, 403},
		{"a user before its own", "localhost:8080", []string{"http://evil@localhost:8080"}, 403, 403, 403, 403},
		{"a query", "localhost:8080", []string{"http://localhost:8080?x"}, 403, 403, 403, 403},
		{"a fragment", "localhost:8080", []string{"http://localhost:8080#x"}, 403, 403, 403, 403},
		{"a bare host", "localhost:8080", []string{"localhost:8080"}, 403, 403, 403, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for kind, want := range map[string]struct {
				o      httpguard.Options
				status int
			}{
				"loopback":      {httpguard.Options{Loopback: true, AllowedOrigins: listed}, tc.loopback},
				"open":          {httpguard.Options{AllowedOrigins: listed}, tc.open},
				"open, listed":  {httpguard.Options{AllowedOrigins: listed, AllowedHosts: []string{"localhost"}}, tc.openListed},
				"any":           {httpguard.Options{AllowedOrigins: []string{"*"}}, tc.any},
				"loopback, any": {httpguard.Options{Loopback: true, AllowedOrigins: []string{"*"}}, tc.any},
			} {
				for _, path := range paths {
					w := send(t, want.o, http.MethodPost, path, tc.host, http.Header{"Origin": tc.origins})
					if w.Code != want.status {
						t.Errorf("%s %s: %d, want %d", kind, path, w.Code, want.status)
					}
					allowed := w.Header().Get("Access-Control-Allow-Origin")
					if len(tc.origins) == 1 && w.Code == 204 && (allowed != tc.origins[0] || w.Header().Get("Vary") != "Origin") {
						t.Errorf("%s %s: the page cannot read the answer: %v", kind, path, w.Header())
					}
					if w.Code == 403 && allowed != "" {
						t.Errorf("%s %s: a refused page may read the answer", kind, path)
					}
				}
			}
		})
	}
}

// TestOwnHost: a listener whose clients all have credentials takes its own page under any name, and no other.
func TestOwnHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, host, origin string
		// The statuses without TLS, with TLS, and on loopback.
		plain, tls, loopback int
	}{
		{"its own", "pod.example:9901", "http://pod.example:9901", 204, 403, 403},
		{"its own over TLS", "pod.example:9901", "https://pod.example:9901", 204, 204, 403},
		{"its own on loopback", "localhost:9901", "http://localhost:9901", 204, 403, 204},
		{"another port", "pod.example:9901", "http://pod.example:3000", 403, 403, 403},
		{"another name", "pod.example:9901", "https://evil.example:9901", 403, 403, 403},
		{"another scheme", "pod.example:9901", "ftp://pod.example:9901", 403, 403, 403},
		{"none", "pod.example:9901", "null", 403, 403, 403},
	} {
		for kind, want := range map[string]struct {
			o      httpguard.Options
			status int
		}{
			"plain": {httpguard.Options{OwnHost: true}, tt.plain}, "TLS": {httpguard.Options{OwnHost: true, TLS: true}, tt.tls},
			"loopback": {httpguard.Options{OwnHost: true, Loopback: true}, tt.loopback},
		} {
			if w := send(t, want.o, http.MethodPost, "/console/sign-in", tt.host, http.Header{"Origin": {tt.origin}}); w.Code != want.status {
				t.Errorf("%s, %s: %d, want %d", tt.name, kind, w.Code, want.status)
			}
		}
	}
}

// TestFetchMetadata: browsers send the requests of images, scripts, forms with GET and links
// without Origin, and say where their page is from.
func TestFetchMetadata(t *testing.T) {
	t.Parallel()
	public := func(r *http.Request) bool { return r.URL.Path == "/public" }
	listed := httpguard.Options{Loopback: true, AllowedOrigins: []string{"https://console.example"}, AnyOrigin: public}
	anyPage := httpguard.Options{AllowedOrigins: []string{"*"}}
	for _, tt := range []struct {
		name   string
		o      httpguard.Options
		path   string
		header http.Header
		want   int
	}{
		{"no browser", listed, "", nil, 204},
		{"an address that a person typed", listed, "", http.Header{"Sec-Fetch-Site": {"none"}}, 204},
		{"a page of this listener", listed, "", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 204},
		{"a page of another site", listed, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a page of another site, beyond loopback", httpguard.Options{}, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"an image", listed, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"image"}}, 403},
		{"a link", listed, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 403},
		{"another port or name of this site", listed, "", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"a value of another day", listed, "", http.Header{"Sec-Fetch-Site": {"cross-planet"}}, 403},
		{"two values", listed, "", http.Header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, 403},
		{"a listed page", listed, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://console.example"}}, 204},
		{"a foreign page", listed, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, 403},
		{"a public document", listed, "/public", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 204},
		{"any page", anyPage, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 204},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			asked := paths
			if tt.path != "" {
				asked = []string{tt.path}
			}
			for _, path := range asked {
				if w := send(t, tt.o, method, path, "127.0.0.1:8080", tt.header); w.Code != tt.want {
					t.Errorf("%s, %s %s: %d, want %d", tt.name, method, path, w.Code, tt.want)
				}
			}
		}
	}
}

// The body tells an MCP client that this is no server of an older era.
// TestPublicDocuments may be read by any page, under the name of this listener, and
// nothing else may be done to them.
func TestPublicDocuments(t *testing.T) {
	t.Parallel()
	o := httpguard.Options{Loopback: true, AnyOrigin: func(r *http.Request) bool { return r.URL.Path == "/public" }}
	page := http.Header{"Origin": {"https://page.example"}, "Access-Control-Request-Method": {"GET"}}
	two := http.Header{"Origin": {"https://page.example", "https://other.example"}}
	for _, tt := range []struct {
		method, path, host string
		header             http.Header
		want               int
	}{
		{http.MethodGet, "/public", "localhost", page, 204}, {http.MethodHead, "/public", "localhost", page, 204},
		{http.MethodOptions, "/public", "localhost", page, 204}, {http.MethodGet, "/public", "localhost", two, 204},
		{http.MethodGet, "/public", "localhost", nil, 204},
		{http.MethodPost, "/public", "localhost", page, 403}, {http.MethodDelete, "/public", "localhost", page, 403},
		{http.MethodGet, "/public", "tools.example", page, 403}, {http.MethodOptions, "/public", "tools.example", page, 403},
		{http.MethodGet, "/mcp", "localhost", page, 403}, {http.MethodOptions, "/mcp", "localhost", page, 403},
	} {
		got := send(t, o, tt.method, tt.path, tt.host, tt.header)
		if got.Code != tt.want {
			t.Errorf("%s %s at %s: %d, want %d", tt.method, tt.path, tt.host, got.Code, tt.want)
		}
		if headers := got.Header().Get("Access-Control-Allow-Origin") + got.Header().Get("Access-Control-Allow-Methods"); tt.want == 204 && headers != "" {
			t.Errorf("%s %s: the guard answers for CORS too: %q", tt.method, tt.path, headers)
		}
	}
}

func TestARefusalIsACanonicalErrorWithoutID(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*httptest.ResponseRecorder{
		"host":   send(t, httpguard.Options{Loopback: true}, http.MethodPost, "/mcp", "evil.example.com\x00\n"+strings.Repeat("x", 500), nil),
		"origin": send(t, httpguard.Options{}, http.MethodPost, "/mcp", "h", http.Header{"Origin": {strings.Repeat("o", 500)}}),
	} {
		var got map[string]json.RawMessage
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, w.Body)
		}
		if _, ok := got["id"]; ok {
			t.Errorf("%s: the answer has an id: %s", name, w.Body)
		}
		if !strings.Contains(string(got["error"]), `"ORIGIN_FORBIDDEN"`) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %s", name, w.Body)
		}
		if w.Body.Len() > 1000 {
			t.Errorf("%s: %d bytes: the caller's text is repeated without a bound", name, w.Body.Len())
		}
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	o := httpguard.Options{AllowedOrigins: []string{"https://console.example"}}
	ask := http.Header{
		"Origin": {"https://console.example"}, "Access-Control-Request-Method": {"POST"},
		"Access-Control-Request-Headers": {"content-type, mcp-param-region, Mcp-Param-Zone,x-evil"},
	}
	for _, path := range paths {
		w := send(t, o, http.MethodOptions, path, "h", ask)
		h := w.Header()
		if w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://console.example" || h.Get("Access-Control-Max-Age") == "" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		allowed := strings.ToLower(h.Get("Access-Control-Allow-Headers"))
		for _, name := range []string{"content-type", "authorization", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id",
			"connect-protocol-version", "x-grpc-web", "traceparent", "idempotency-key", "mcp-param-region", "mcp-param-zone"} {
			if !strings.Contains(allowed, name) {
				t.Errorf("%s: %s is not allowed: %s", path, name, allowed)
			}
		}
		if strings.Contains(allowed, "x-evil") {
			t.Errorf("%s: allowed because it was asked for: %s", path, allowed)
		}
	}
	foreign := ask.Clone()
	foreign.Set("Origin", "https://evil.example.com")
	if w := send(t, o, http.MethodOptions, "/mcp", "h", foreign); w.Code != 403 {
		t.Errorf("a foreign page's preflight: %d, want 403", w.Code)
	}
	// OPTIONS without the question is a request like any other.
	if w := send(t, o, http.MethodOptions, "/mcp", "h", http.Header{"Origin": {"https://console.example"}}); w.Header().Get("Access-Control-Max-Age") != "" {
		t.Errorf("taken for a preflight: %v", w.Header())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "*", "*.test", "http://x", "a b", "x/y", "u@h", "a,b"} {
		if _, err := httpguard.New(httpguard.Options{AllowedHosts: []string{host}}); err == nil {
			t.Errorf("host %q is taken", host)
		}
	}
	for _, origin := range []string{"", "null", "console.example", "https://", "https://x/", "https://x/p", "https://x?q", "https://x#f",
		"https://u@x", "https://*.example", "://x", "https://x\n"} {
		if _, err := httpguard.New(httpguard.Options{AllowedOrigins: []string{origin}}); err == nil {
			t.Errorf("origin %q is taken", origin)
		}
	}
}

// TestRefusalsAreTold to the counter, each once and nothing else.
func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	var told []string
	o := httpguard.Options{Loopback: true, Refused: func(r *http.Request, code errmap.Code) { told = append(told, r.URL.Path+" "+string(code)) }}
	send(t, o, http.MethodPost, "/host", "evil.example", nil)
	send(t, o, http.MethodPost, "/origin", "127.0.0.1", http.Header{"Origin": {"https://evil.example"}})
	send(t, o, http.MethodOptions, "/preflight", "127.0.0.1", http.Header{"Origin": {"null"}, "Access-Control-Request-Method": {"POST"}})
	send(t, o, http.MethodPost, "/good", "127.0.0.1", nil)
	send(t, o, http.MethodPost, "/own", "127.0.0.1:80", http.Header{"Origin": {"http://127.0.0.1:80"}})
	if got := strings.Join(told, ", "); got != "/host ORIGIN_FORBIDDEN, /origin ORIGIN_FORBIDDEN, /preflight ORIGIN_FORBIDDEN" {
		t.Errorf("told of %s", got)
	}
}
