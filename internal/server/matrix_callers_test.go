// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// Two authorization servers that both know a user "ann", whose name is that of a caller
// of the callers file, too.
const (
	issuerA = "https://a.login.example"
	issuerB = "https://b.login.example/"
	subject = "ann"
)

// resourceURL is the resource that clients know.
const resourceURL = "https://tools.example.org/mcp"

// resourceMetadata is where challenges send them.
const resourceMetadata = "https://tools.example.org/.well-known/oauth-protected-resource/mcp"

// everyScope is what all of the operations need.
var everyScope = []string{"completion", "listen", "prompts", "resources", "tasks", "tools:*"}

// who is a caller of the matrix.
type who struct {
	name string
	// token is the bearer token; "" for a caller without authentication.
	token string
	// grant is what the callers file says; nil if no file does.
	grant *identity.Grant
	// issuer and scopes are those of an access token.
	issuer string
	scopes []string
	// uri is the name in a certificate.
	uri string
}

// callers are all callers of the matrix, but that without authentication.
func callers() []who {
	every := []string{glob.Anything}
	all := []who{
		{name: "file: ann", grant: &identity.Grant{Name: subject, Tools: []string{"lab.echo", "fleet.get_*"}}},
		{name: "file: bob", grant: &identity.Grant{Name: "bob", Tools: every, Resources: every, Prompts: every, Publish: every, Subscribe: every, Trust: identity.Trusted}},
		{name: "certificate", uri: "spiffe://example.org/ann"},
		{name: "issuer A: ann", issuer: issuerA, scopes: everyScope},
		{name: "issuer A: ann, reading", issuer: issuerA, scopes: []string{"openid", "tools:read", "resources"}},
		{name: "issuer A: ann, without scopes", issuer: issuerA},
		{name: "issuer B: ann", issuer: issuerB, scopes: []string{"completion", "listen", "prompts", "resources", "tasks", "tools:read", "tools:write"}},
		{name: "issuer B: ann, writing", issuer: issuerB, scopes: []string{"tools:write", "prompts"}},
	}
	return withTokens(all)
}

// withTokens gives each caller a token.
func withTokens(all []who) []who {
	for i := range all {
		all[i].token = "token-of-" + strings.Map(func(r rune) rune {
			if r == ' ' || r == ':' || r == ',' {
				return '-'
			}
			return r
		}, all[i].name)
	}
	return all
}

// directory tells the callers apart, as an authenticator of all sources does.
type directory struct {
	book   *identity.Book
	others map[string]*identity.Identity
}

func newDirectory(t testing.TB, all []who) *directory {
	t.Helper()
	d := &directory{others: map[string]*identity.Identity{}}
	var entries []identity.Entry
	for _, w := range all {
		switch {
		case w.grant != nil:
			entries = append(entries, identity.Entry{Grant: *w.grant, Tokens: []identity.Digest{sha256.Sum256([]byte(w.token))}})
		case w.uri != "":
			known, err := identity.Certificates{}.Authenticate(t.Context(), identity.Credentials{URIs: []string{w.uri}})
			if err != nil {
				t.Fatal(err)
			}
			d.others[w.token] = known
		default:
			every := []string{glob.Anything}
			d.others[w.token] = identity.NewIdentityOf(identity.Grant{Name: subject, Tools: every, Resources: every, Prompts: every, Publish: every, Subscribe: every},
				identity.Facts{Source: identity.SourceOAuth, Issuer: w.issuer, Subject: subject, Scopes: w.scopes})
		}
	}
	d.book = identity.NewBook(entries)
	return d
}

// Authenticate implements [identity.Authenticator].
func (d *directory) Authenticate(ctx context.Context, shown identity.Credentials) (*identity.Identity, error) {
	if known := d.others[shown.Token]; known != nil {
		return known, nil
	}
	return d.book.Authenticate(ctx, shown)
}

// challenge is how a caller is refused something, "" if the caller may do it.
func (w who) challenge(o *operation) string {
	switch {
	case w.grant != nil && !w.isGranted(o):
		return `Bearer realm="outrigger", error="insufficient_scope"`
	case w.issuer != "" && !w.hasAll(o.needs):
		return `Bearer error="insufficient_scope", scope="` + strings.Join(o.needs, " ") + `", resource_metadata="` + resourceMetadata + `"`
	}
	return ""
}

// isGranted reports whether the callers file lets the caller do something.
func (w who) isGranted(o *operation) bool {
	return w.grant == nil || (o.tool == "" || glob.MatchAny(w.grant.Tools, o.tool)) && (o.uri == "" || glob.MatchAny(w.grant.Resources, o.uri)) &&
		(o.prompt == "" || glob.MatchAny(w.grant.Prompts, o.prompt)) && (o.event == "" || glob.MatchAny(w.grant.Subscribe, o.event)) &&
		(o.publish == "" || glob.MatchAny(w.grant.Publish, o.publish))
}

// hasAll reports whether the scopes of the caller cover others.
func (w who) hasAll(needed []string) bool {
	for _, n := range needed {
		if !slices.Contains(w.scopes, n) && !(strings.HasPrefix(n, "tools:") && slices.Contains(w.scopes, "tools:*")) {
			return false
		}
	}
	return true
}

// mayCall reports whether the caller may call a tool that needs a scope.
func (w who) mayCall(tool, scope string) bool {
	return w.challenge(&operation{tool: tool, needs: strings.Fields(scope)}) == ""
}

// withOAuth makes the sidecar a resource server, with scopes for everything.
func withOAuth(c *configv1.Config) {
	rule := "read_write"
	c.Access.Oauth = &configv1.OAuth{
		Issuers: []*configv1.OAuthIssuer{{Url: issuerA}, {Url: issuerB}}, Resource: resourceURL, ScopeRule: &rule, ResourceName: "Tools of the lagoon",
		ToolScopes: []*configv1.ToolScopes{{Tools: []string{"fleet.get_map"}}},
		OperationScopes: []*configv1.OperationScopes{
			{Operations: []string{"list_resources", "list_resource_templates", "read_resource"}, Scopes: []string{"resources"}},
			{Operations: []string{"list_prompts", "get_prompt"}, Scopes: []string{"prompts"}},
			{Operations: []string{"complete"}, Scopes: []string{"completion"}},
			{Operations: []string{"get_task", "update_task", "cancel_task"}, Scopes: []string{"tasks"}},
			{Operations: []string{"listen"}, Scopes: []string{"listen"}},
		},
	}
}

// matrix is a sidecar for the callers.
type matrix struct {
	rig     *mcptest.Rig
	url     string
	backend *reached
}

// newMatrix starts the sidecar before a backend with something of every kind. Without
// who, callers are not authenticated.
func newMatrix(t testing.TB, who identity.Authenticator, configure func(*configv1.Config), change ...func(*server.Options)) *matrix {
	t.Helper()
	m := &matrix{backend: &reached{}}
	m.rig = mcptest.Start(t, mcptest.Options{
		Native: mcptest.Desk(), Change: func(o *server.Options) {
			o.Authenticator = who
			for _, c := range change {
				c(o)
			}
		}, Adjust: server.Adjust{Backend: func(next bridge.Upstream, own bridge.Native) (bridge.Upstream, bridge.Native) {
			return m.backend.count(next), own
		}},
		Configure: func(c *configv1.Config) {
			c.Catalog.Skills = []string{skillFolder(t)}
			if who != nil { // with issuers, callers need an identity
				withOAuth(c)
			}
			if configure != nil {
				configure(c)
			}
		},
	})
	m.url = m.rig.Serve(t)
	return m
}

// bearer adds a token to the requests of a client.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// client is an HTTP client of a caller.
func (w who) client(t testing.TB, version int) *http.Client {
	t.Helper()
	c := mcptest.Client(t, version)
	c.Transport = traced{traceOf(t), bearer{w.token, c.Transport}}
	return c
}
