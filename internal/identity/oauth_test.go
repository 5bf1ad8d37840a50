// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// withIssuers is the default settings with issuers.
func withIssuers(issuers ...*configv1.OAuthIssuer) *configv1.OAuth {
	c := config.Defaults(config.Serve).GetAccess().GetOauth()
	c.Issuers, c.Resource = issuers, "https://a/mcp"
	return c
}

// TestOAuthDefaults: every bound has its default.
func TestOAuthDefaults(t *testing.T) {
	t.Parallel()
	if _, on, err := identity.OAuthOptions(config.Defaults(config.Serve).GetAccess().GetOauth()); on || err != nil {
		t.Errorf("on by default: %v, %v", on, err)
	}
	c := withIssuers()
	c.IssuerUrls = []string{"https://b"}
	o, on, err := identity.OAuthOptions(c)
	if !on || err != nil || len(o.Issuers) != 1 || len(o.Algorithms) != 10 {
		t.Fatalf("%+v, %v, %v", o, on, err)
	}
	if o.Leeway != defaults.OAuthLeeway || o.MaxTokens != defaults.OAuthMaxCachedTokens || o.MaxTokenBytes != defaults.OAuthMaxTokenBytes ||
		o.RefreshInterval != defaults.OAuthKeyRefreshInterval || o.FetchInterval != defaults.OAuthKeyFetchInterval ||
		o.FetchTimeout != defaults.OAuthFetchTimeout || o.MaxFetchBytes != defaults.OAuthMaxFetchBytes ||
		o.DPoP.MaxAge != defaults.OAuthDpopMaxAge || o.DPoP.MaxProofs != defaults.OAuthDpopMaxProofs || o.DPoP.Required || o.DPoP.Nonces || o.StrictType {
		t.Errorf("%+v", o)
	}
	if g := o.Grant; g.Tools[0] != "*" || g.Resources[0] != "*" || g.Prompts[0] != "*" || g.Trust != identity.Unsaid {
		t.Errorf("%+v", g)
	}
	c.Leeway = durationpb.New(0)
	if o, _, _ = identity.OAuthOptions(c); o.Leeway >= 0 {
		t.Errorf("no leeway is %v", o.Leeway)
	}
}

// TestOAuthIssuers: settings win over a bare URL, and files are read.
func TestOAuthIssuers(t *testing.T) {
	t.Parallel()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in := &configv1.OAuthIntrospection{ClientId: "me", ClientSecretFile: file("secret", "s3cret\n"), Ttl: durationpb.New(time.Second)}
	c := withIssuers(&configv1.OAuthIssuer{Url: "https://b", Introspection: in, GroupsClaim: "groups"})
	c.IssuerUrls = []string{"https://b/", "https://c"}
	o, _, err := identity.OAuthOptions(c)
	if err != nil || len(o.Issuers) != 2 || o.Issuers[0].GroupsClaim != "groups" || o.Issuers[1].URL != "https://c" {
		t.Fatalf("%+v, %v", o.Issuers, err)
	}
	if secret, err := o.Issuers[0].Introspection.Secret(); secret != "s3cret" || err != nil || o.Issuers[0].Introspection.TTL != time.Second {
		t.Errorf("%q, %v", secret, err)
	}
	for want, issuer := range map[string]*configv1.OAuthIssuer{
		"no such file":            {Url: "https://b", CaFile: "/nowhere"},
		"has no certificate":      {Url: "https://b", CaFile: file("ca", "text")},
		"must have a client":      {Url: "https://b", Introspection: &configv1.OAuthIntrospection{ClientId: "me", ClientSecretFile: file("empty", "\n")}},
		"more than 4096 bytes":    {Url: "https://b", Introspection: &configv1.OAuthIntrospection{ClientId: "me", ClientSecretFile: file("large", strings.Repeat("a", 5000))}},
		"http is for loopback":    {Url: "http://example.com"},
		"without user and":        {Url: "https://user@example.com"},
		"http is for loopback on": {Url: "https://b", JwksUrl: "http://example.com"},
	} {
		found := ""
		identity.CheckOAuth(withIssuers(issuer), func(path, message string) { found = path + ": " + message })
		if !strings.HasPrefix(found, "access.oauth: ") || !strings.Contains(found, want) {
			t.Errorf("%q, want %q", found, want)
		}
	}
}
