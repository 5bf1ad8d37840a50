// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]string{
		"https://tools.example.org/mcp":        "https://tools.example.org/.well-known/oauth-protected-resource/mcp",
		"https://tools.example.org:8443/a/mcp": "https://tools.example.org:8443/.well-known/oauth-protected-resource/a/mcp",
		"https://tools.example.org":            "https://tools.example.org/.well-known/oauth-protected-resource",
		"http://127.0.0.1:8080/mcp":            "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp",
		"http://[::1]:8080/mcp":                "http://[::1]:8080/.well-known/oauth-protected-resource/mcp",
		"http://localhost/mcp":                 "http://localhost/.well-known/oauth-protected-resource/mcp",
		"":                                     "", "mcp": "", "/mcp": "", "https:///mcp": "", "https:tools": "", "ftp://tools.example.org/mcp": "",
		"http://tools.example.org/mcp": "", "http://10.0.0.1/mcp": "",
		"https://tools.example.org/": "", "https://tools.example.org/mcp/": "", "https://tools.example.org/mcp#x": "", "https://tools.example.org/mcp#": "",
		"https://tools.example.org/mcp?": "", "https://tools.example.org/mcp?x=1": "", "https://u:p@tools.example.org/mcp": "",
		"https://tools.example.org//mcp": "", "https://tools.example.org/a/../mcp": "", "https://tools.example.org/%6dcp": "",
		"https://tools.example.org/m\"cp": "", "https://tools.example.org/m\\cp": "", "https://tools.example.org/m cp": "", "https://tööls.example.org/mcp": "",
	} {
		got, err := identity.ParseResource(resource)
		if (err == nil) != (want != "") || got.Metadata != want || err == nil && (got.URL != resource || !strings.HasSuffix(want, got.Path)) {
			t.Errorf("%q: %+v, %v", resource, got, err)
		}
	}
}

func TestCheckIssuer(t *testing.T) {
	t.Parallel()
	for issuer, want := range map[string]bool{
		"https://login.example.org": true, "https://login.example.org/": true, "https://login.example.org/realms/a": true, "http://127.0.0.1:9000": true,
		"": false, "login.example.org": false, "http://login.example.org": false, "https://login.example.org?x": false, "https://login.example.org#": false,
		"https://u@login.example.org": false, "https://login.example.org/\"": false, "mailto:a@b": false,
	} {
		if err := identity.CheckIssuer(issuer); (err == nil) != want {
			t.Errorf("%q: %v", issuer, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("https://tools.example.org/mcp")
	f.Add("http://[::1]:80/a/b")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := identity.ParseResource(text)
		if err != nil {
			return
		}
		if !identity.IsMetadataPath(got.Path) || strings.ContainsAny(got.Metadata, "\"\\ \r\n#?") || strings.HasSuffix(got.Metadata, "/") {
			t.Errorf("%q: %+v", text, got)
		}
	})
}

func handler() *identity.MetadataHandler {
	return identity.NewMetadataHandler(&configv1.OAuth{
		Resource: "https://tools.example.org/mcp", IssuerUrls: []string{"https://login.example.org/"},
		Algorithms: []string{"ES256"}, Dpop: &configv1.OAuthDpop{Required: new(true)},
	}, "Tools", func() []string { return []string{"tools:read"} })
}

// golden is the document as clients read it.
const golden = `{"resource":"https://tools.example.org/mcp","authorization_servers":["https://login.example.org/"],` +
	`"scopes_supported":["tools:read"],"bearer_methods_supported":["header"],"resource_name":"Tools",` +
	`"dpop_signing_alg_values_supported":["ES256"],"dpop_bound_access_tokens_required":true}`

func do(t *testing.T, h http.Handler, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestHandler(t *testing.T) {
	t.Parallel()
	const root, own = identity.MetadataPrefix, identity.MetadataPrefix + "/mcp"
	tag := do(t, handler(), http.MethodGet, own).Header.Get("ETag")
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		body               string
	}{
		{"path form", http.MethodGet, own, nil, 200, golden},
		{"root form", http.MethodGet, root, nil, 200, golden},
		{"head", http.MethodHead, own, nil, 200, ""},
		{"seen before", http.MethodGet, own, []string{"If-None-Match", tag}, 304, ""},
		{"another one seen", http.MethodGet, own, []string{"If-None-Match", `"x"`}, 200, golden},
		{"preflight", http.MethodOptions, own, []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}, 204, ""},
		{"another resource", http.MethodGet, root + "/rpc", nil, 404, "there is no protected resource metadata here\n"},
		{"a slash more", http.MethodGet, own + "/", nil, 404, "there is no protected resource metadata here\n"},
		{"post", http.MethodPost, own, nil, 405, "protected resource metadata is read with GET\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := do(t, handler(), tt.method, tt.path, tt.header...)
			body, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != tt.status || string(body) != tt.body {
				t.Errorf("%d %s, %v", got.StatusCode, body, err)
			}
			if got.Header.Get("Access-Control-Allow-Origin") != "*" || got.Header.Get("Vary") != "" {
				t.Errorf("headers %v", got.Header)
			}
			isDocument := tt.status == http.StatusOK || tt.status == http.StatusNotModified
			if isDocument != (got.Header.Get("ETag") == tag) || isDocument != (got.Header.Get("Cache-Control") == "public, max-age=300") ||
				(tt.status == http.StatusOK) != (got.Header.Get("Content-Type") == "application/json") {
				t.Errorf("headers %v", got.Header)
			}
			if (got.Header.Get("Allow") != "") != (tt.status == 204 || tt.status == 405) || (got.Header.Get("Access-Control-Allow-Headers") == "*") != (tt.status == 204) {
				t.Errorf("headers %v", got.Header)
			}
		})
	}
	if got := do(t, identity.NewMetadataHandler(nil, "", nil), http.MethodGet, root); got.StatusCode != http.StatusNotFound {
		t.Errorf("without OAuth: %d", got.StatusCode)
	}
}
