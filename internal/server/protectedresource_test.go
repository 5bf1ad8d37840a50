// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
)

// document is the metadata with these scopes.
func document(scopes string) string {
	return `{"resource":"` + resourceURL + `","authorization_servers":["` + issuerA + `","` + issuerB + `"],"scopes_supported":[` + scopes +
		`],"bearer_methods_supported":["header"],"resource_name":"Tools of the lagoon",` +
		`"dpop_signing_alg_values_supported":["RS256","RS384","RS512","PS256","PS384","PS512","ES256","ES384","ES512","EdDSA"]}`
}

// allSupported are the scopes of everything.
const allSupported = `"completion","listen","prompts","resources","tasks","tools:read","tools:write"`

// fetch asks for metadata without a token.
func fetch(t *testing.T, method, url, host, origin string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "GET")
	}
	resp, err := mcptest.Client(t, 1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestProtectedResourceMetadata without a token, from any page, under this listener's name.
func TestProtectedResourceMetadata(t *testing.T) {
	t.Parallel()
	m := newMatrix(t, newDirectory(t, callers()), nil)
	const root = "/.well-known/oauth-protected-resource"
	const stranger = "https://inspector.example"
	for _, tt := range []struct {
		name, method, path, host, origin string
		status                           int
	}{
		{"path form", http.MethodGet, root + "/mcp", "", "", 200},
		{"root form", http.MethodGet, root, "", "", 200},
		{"a page", http.MethodGet, root + "/mcp", "", stranger, 200},
		{"a preflight", http.MethodOptions, root + "/mcp", "", stranger, 204},
		{"head", http.MethodHead, root, "", "", 200},
		{"another host", http.MethodGet, root + "/mcp", "rebound.example", "", 403},
		{"another host's page", http.MethodGet, root + "/mcp", "rebound.example", stranger, 403},
		{"another resource", http.MethodGet, root + "/rpc", "", "", 404},
		{"another method", http.MethodPost, root + "/mcp", "", "", 405},
		{"another method of a page", http.MethodPost, root + "/mcp", "", stranger, 403},
		{"the document of an authorization server", http.MethodGet, "/.well-known/oauth-authorization-server", "", "", 404},
		{"the same for a path", http.MethodGet, "/.well-known/oauth-authorization-server/mcp", "", "", 404},
		{"OpenID Connect's", http.MethodGet, "/.well-known/openid-configuration", "", stranger, 404},
		{"another document", http.MethodGet, "/.well-known/security.txt", "", "", 401},
		{"registration", http.MethodPost, "/register", "", "", 404},
		{"authorization", http.MethodGet, "/authorize", "", "", 404},
		{"tokens", http.MethodPost, "/token", "", "", 404},
		{"a name that begins the same", http.MethodGet, root + "s", "", "", 401},
		{"an edge beside it", http.MethodGet, root + "/../../mcp", "", "", 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := fetch(t, tt.method, m.url+tt.path, tt.host, tt.origin)
			body := bodyOf(t, resp)
			if resp.StatusCode != tt.status {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			if tt.status == http.StatusOK && tt.method == http.MethodGet && body != document(allSupported) {
				t.Errorf("%s", body)
			}
			if (resp.Header.Get("Access-Control-Allow-Origin") == "*") != (tt.status != 403 && tt.status != 401) {
				t.Errorf("headers %v", resp.Header)
			}
			if tt.status == http.StatusOK && (resp.Header.Get("ETag") == "" || !strings.HasPrefix(resp.Header.Get("Cache-Control"), "public, max-age=")) {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// TestMetadataWhileTheSidecarDrains: clients learn where tokens come from as long as
// anything is answered.
func TestMetadataWhileTheSidecarDrains(t *testing.T) {
	t.Parallel()
	m := newMatrix(t, newDirectory(t, callers()), nil)
	m.rig.End()
	resp := fetch(t, http.MethodGet, m.url+"/.well-known/oauth-protected-resource/mcp", "", "")
	if body := bodyOf(t, resp); resp.StatusCode != http.StatusOK || body != document(allSupported) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if got, _ := sendHTTP(t, callers()[1].client(t, 1), m.url+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`); got.code != "UNAVAILABLE" {
		t.Errorf("a call beside it: %+v", got)
	}
}

// TestMetadataBeforeTheCatalog names the scopes that the configuration knows.
func TestMetadataBeforeTheCatalog(t *testing.T) {
	t.Parallel()
	c := config.Defaults(config.Serve)
	off := proto.String("off")
	c.Listeners.Listen, c.Listeners.Admin, c.Listeners.Health, c.Record.Dir, c.Demo = off, off, off, off, true
	withOAuth(c)
	app, err := server.New(t.Context(), c, server.Options{Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		app.CloseListeners()
		if err := app.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := app.Prepare(func() {}); err != nil {
		t.Fatal(err)
	}
	handler, err := app.Handler(front.Place{Name: "test", Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	resp := fetch(t, http.MethodGet, mcptest.Serve(t, handler)+"/.well-known/oauth-protected-resource", "", "")
	if body := bodyOf(t, resp); app.Live().Current() != nil || body != document(allSupported) {
		t.Errorf("%s", body)
	}
}

// TestNoMetadataWithoutOAuth: not found, and not a request for a token that no server
// issues.
func TestNoMetadataWithoutOAuth(t *testing.T) {
	t.Parallel()
	m := newMatrix(t, newDirectory(t, callers()), func(c *configv1.Config) { c.Access.Oauth = nil })
	const known = "/.well-known/"
	for _, path := range []string{
		known + "oauth-protected-resource", known + "oauth-protected-resource/mcp", known + "oauth-authorization-server",
		known + "oauth-authorization-server/mcp", known + "openid-configuration", "/register", "/authorize", "/token",
	} {
		resp := fetch(t, http.MethodGet, m.url+path, "", "")
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%q: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
}
