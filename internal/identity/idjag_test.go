// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// enterprise is a client whose user has signed in at the identity provider of an enterprise. What it does is the client's part
// of the extension io.modelcontextprotocol/enterprise-managed-authorization; the grants are the business of the two servers.
type enterprise struct {
	t       *testing.T
	http    *http.Client
	sidecar string // where the sidecar really is: its identifier names another port
}

// read returns the JSON object at a URL of a sidecar or server.
func (c *enterprise) read(at string) map[string]any {
	c.t.Helper()
	return c.object(c.http.Get(strings.Replace(at, origin, c.sidecar, 1))) //nolint:noctx // of a test
}

func (c *enterprise) object(resp *http.Response, err error) map[string]any {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	var out map[string]any
	if err != nil || json.Unmarshal(raw, &out) != nil {
		c.t.Fatalf("%v: %d %s", err, resp.StatusCode, raw)
	}
	return out
}

// post sends a form to a token endpoint, and returns the token or the error.
func (c *enterprise) post(endpoint string, form url.Values) (token, fault string) {
	c.t.Helper()
	got := c.object(c.http.PostForm(endpoint, form)) //nolint:noctx // of a test
	token, _ = got["access_token"].(string)
	fault, _ = got["error"].(string)
	return token, fault
}

// exchange asks the identity provider for a grant.
func (c *enterprise) exchange(provider *oauthtest.Issuer, idToken, server, resource string) (grant, fault string) {
	c.t.Helper()
	return c.post(provider.TokenEndpoint(), url.Values{
		"grant_type": {oauthtest.GrantTokenExchange}, "requested_token_type": {"urn:ietf:params:oauth:token-type:id-jag"},
		"subject_token": {idToken}, "subject_token_type": {"urn:ietf:params:oauth:token-type:id_token"},
		"audience": {server}, "resource": {resource}, "scope": {"tools:read"}, "client_id": {"app"},
	})
}

// redeem asks the authorization server for an access token.
func (c *enterprise) redeem(endpoint, grant, client string) (token, fault string) {
	c.t.Helper()
	return c.post(endpoint, url.Values{"grant_type": {oauthtest.GrantJWTBearer}, "assertion": {grant}, "client_id": {client}})
}

// TestEnterpriseManagedAuthorization goes the whole way: the sidecar's challenge names its metadata, which names the
// authorization server, which says that it takes grants; the identity provider gives one, the server an access token for it,
// and a tool is called with that. Each server and the sidecar refuse what is theirs to refuse.
func TestEnterpriseManagedAuthorization(t *testing.T) {
	t.Parallel()
	provider, server := oauthtest.Start(t), oauthtest.Start(t)
	server.Trust(provider)
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Access.Oauth.Resource, c.Access.Oauth.IssuerUrls = resource, []string{server.URL}
	}})
	a := newAsker(t, rig.Serve(t))
	c := &enterprise{t: t, http: mcptest.Client(t, 1), sidecar: a.url}
	call := edges()[0]

	// Discovery.
	challenged := a.ask(t, &call, shown{})
	at := regexp.MustCompile(`resource_metadata="([^"]+)"`).FindStringSubmatch(strings.Join(challenged.challenge, ", "))
	if challenged.status != http.StatusUnauthorized || at == nil {
		t.Fatalf("%d %q", challenged.status, challenged.challenge)
	}
	ours := c.read(at[1])
	servers, _ := ours["authorization_servers"].([]any)
	if ours["resource"] != resource || len(servers) != 1 || servers[0] != server.URL {
		t.Fatalf("the sidecar's metadata: %v", ours)
	}
	theirs := c.read(strings.Replace(server.URL, "/realm", "/.well-known/oauth-authorization-server/realm", 1))
	profiles, _ := theirs["authorization_grant_profiles_supported"].([]any)
	endpoint, _ := theirs["token_endpoint"].(string)
	if len(profiles) != 1 || profiles[0] != oauthtest.ProfileIDJAG || endpoint == "" {
		t.Fatalf("the server's metadata: %v", theirs)
	}

	// The good way.
	idToken := provider.SignIn("ann", "app")
	grant, fault := c.exchange(provider, idToken, server.URL, resource)
	if grant == "" {
		t.Fatal(fault)
	}
	token, fault := c.redeem(endpoint, grant, "app")
	if token == "" {
		t.Fatal(fault)
	}
	show := func(token string) shown { return shown{auth: []string{"Bearer " + token}} }
	for _, e := range edges() {
		if got := a.ask(t, &e, show(token)); got.isDenied() {
			t.Errorf("%s: %d, gRPC %q, %q\n%s", e.name, got.status, got.grpc, got.challenge, got.body)
		}
	}
	call.body = strings.Replace(call.body, `"tools/list","params":{`, `"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"from-ann"},`, 1)
	call.header = map[string]string{
		"Content-Type": asJSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "lab_echo",
	}
	if got := a.ask(t, &call, show(token)); got.status != http.StatusOK || !strings.Contains(string(got.body), `"nonce":"from-ann"`) {
		t.Errorf("the tool: %d %s", got.status, got.body)
	}

	// What the identity provider refuses, and what the authorization server does.
	provider.Deny("https://payroll.example/mcp")
	if _, fault := c.exchange(provider, idToken, server.URL, "https://payroll.example/mcp"); fault != "access_denied" {
		t.Errorf("a resource that the enterprise denies: %q", fault)
	}
	for name, tc := range map[string]struct{ grant, client string }{
		"a grant that was used":           {grant, "app"},
		"a grant for another client":      {provider.IDJAG(server.URL, resource, "ann", "other", "tools:read", nil), "app"},
		"a grant for another server":      {provider.IDJAG("https://elsewhere.example", resource, "ann", "app", "tools:read", nil), "app"},
		"a grant of another provider":     {server.IDJAG(server.URL, resource, "ann", "app", "tools:read", nil), "app"},
		"a grant that has expired":        {provider.IDJAG(server.URL, resource, "ann", "app", "tools:read", func(c map[string]any) { c["exp"] = 1 }), "app"},
		"an id token in place of a grant": {idToken, "app"},
		"an access token in place of one": {token, "app"},
	} {
		if got, fault := c.redeem(endpoint, tc.grant, tc.client); got != "" || fault != "invalid_grant" {
			t.Errorf("%s: %q", name, fault)
		}
	}

	// What the sidecar refuses: all but an access token of its server for itself.
	fresh, _ := c.exchange(provider, idToken, server.URL, resource)
	elsewhere, _ := c.redeem(endpoint, provider.IDJAG(server.URL, "https://elsewhere.example/mcp", "ann", "app", "tools:read", nil), "app")
	for name, tc := range map[string]struct {
		token string
		want  answer
	}{
		"the grant":                      {fresh, invalid("the token is unknown, or of an unknown issuer")},
		"the id token":                   {idToken, invalid("the token is unknown, or of an unknown issuer")},
		"a token for another one":        {elsewhere, invalid("the token is for another resource")},
		"a grant that its server signed": {server.IDJAG(server.URL, resource, "ann", "app", "tools:read", nil), invalid("the token is of a type that is not accepted")},
	} {
		if got := a.ask(t, &call, show(tc.token)); tc.token == "" || !got.isRefused(&call, tc.want) {
			t.Errorf("%s: %d %q, want %q", name, got.status, got.challenge, tc.want)
		}
	}
}
