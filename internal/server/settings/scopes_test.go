// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// load reads a configuration file as `sidecar serve` does.
func load(t *testing.T, yaml string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidecar.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.RegisterFlags(flags, config.Serve)
	if err := flags.Parse([]string{"--config", path, "--demo"}); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Serve, flags, nil, config.Options{Checks: settings.Checks(config.Serve)})
}

// TestConfigurationsOfThePageLoad: what readers paste from the page about identity
// providers is accepted, and makes a resource server with the page's scopes.
func TestConfigurationsOfThePageLoad(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../../docs/identity-providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)\n```").FindAllSubmatch(page, -1)
	if len(blocks) != 5 {
		t.Fatalf("%d configurations, want one about scopes and one for each provider", len(blocks))
	}
	refund := &catalog.Tool{Name: "orders.refund"}
	for _, block := range blocks {
		got, err := load(t, string(block[1]))
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
			continue
		}
		oauth := got.Config.GetAccess().GetOauth()
		rules := policy.NewAuthorizer(oauth)
		if !identity.HasOAuth(oauth) {
			t.Fatalf("no resource server:\n%s", block[1])
		}
		anyone := identity.NewIdentityOf(identity.Grant{Name: "a", Tools: []string{"*"}}, identity.Facts{Source: identity.SourceOAuth, Issuer: "i", Subject: "s"})
		denied := rules.MayUse(anyone, refund)
		if denied == nil || !strings.Contains(denied.Challenge, `resource_metadata="https://tools.example.org/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("a refund without a scope: %v in\n%s", denied, block[1])
		}
	}
}

// TestFaultsOfOAuth have their place.
func TestFaultsOfOAuth(t *testing.T) {
	t.Parallel()
	const issuers = "    issuers: [{url: \"https://login.example.org\"}]\n"
	const resource = "    resource: https://tools.example.org/mcp\n"
	for _, tt := range []struct{ name, oauth, want string }{
		{"no resource", issuers, "access.oauth.resource: the audience of tokens is missing"},
		{"no issuer", resource, "access.oauth.resource: has no effect without an issuer"},
		{"neither", "    scope_rule: read_write\n", "access.oauth.resource: must be set"},
		{"a trailing slash", issuers + "    resource: https://tools.example.org/mcp/\n", "sidecar.yaml:4:15: access.oauth.resource: must not end in a slash"},
		{"plaintext", issuers + "    resource: http://tools.example.org/mcp\n", "access.oauth.resource: must begin with https://"},
		{"a fragment", issuers + "    resource: \"https://tools.example.org/mcp#x\"\n", "access.oauth.resource:"},
		{"an issuer in plaintext", resource + "    issuers: [{url: \"http://login.example.org\"}]\n", "access.oauth.issuers[0].url: must begin with https://"},
		{"an issuer twice", resource + "    issuers: [{url: \"https://a.example\"}, {url: \"https://a.example\"}]\n", "access.oauth.issuers[1].url: is there twice"},
		{"an issuer without a URL", resource + "    issuers: [{audiences: [x]}]\n", "access.oauth.issuers[0].url:"},
		{"a rule that is none", resource + issuers + "    scope_rule: all\n", "access.oauth.scope_rule: must be one of none, read_write"},
		{"a scope with a quote", resource + issuers + "    tool_scopes: [{tools: [\"*\"], scopes: ['a\"b']}]\n", "access.oauth.tool_scopes[0].scopes[0]:"},
		{"two scopes in one", resource + issuers + "    tool_scopes: [{tools: [\"*\"], scopes: [\"a b\"]}]\n", "access.oauth.tool_scopes[0].scopes[0]:"},
		{"an empty scope", resource + issuers + "    tool_scopes: [{tools: [\"*\"], scopes: [\"\"]}]\n", "access.oauth.tool_scopes[0].scopes[0]"},
		{"no tool", resource + issuers + "    tool_scopes: [{scopes: [a]}]\n", "access.oauth.tool_scopes[0].tools:"},
		{"a tool that is no name", resource + issuers + "    tool_scopes: [{tools: [\"Shop/Buy\"]}]\n", "access.oauth.tool_scopes[0].tools[0]:"},
		{"an operation that is none", resource + issuers + "    operation_scopes: [{operations: [call_tool], scopes: [a]}]\n", "access.oauth.operation_scopes[0].operations[0]: must be one of list_tools"},
		{"a scope twice", resource + issuers + "    operation_scopes: [{operations: [listen], scopes: [a, a]}]\n", "access.oauth.operation_scopes[0].scopes:"},
		{"a long scope", resource + issuers + "    tool_scopes: [{tools: [\"*\"], scopes: [" + strings.Repeat("s", 129) + "]}]\n", "access.oauth.tool_scopes[0].scopes[0]:"},
		{"many scopes", resource + issuers + "    tool_scopes: [{tools: [\"*\"], scopes: [" + strings.Repeat("s, ", 16) + "t]}]\n", "access.oauth.tool_scopes[0].scopes:"},
		{"many entries", resource + issuers + "    tool_scopes: [" + strings.Repeat("{tools: [a]}, ", 256) + "{tools: [b]}]\n", "access.oauth.tool_scopes:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, "access:\n  oauth:\n"+tt.oauth)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
		})
	}
}

// TestWithoutOAuth: the sidecar is no resource server by default.
func TestWithoutOAuth(t *testing.T) {
	t.Parallel()
	got, err := load(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if identity.HasOAuth(got.Config.GetAccess().GetOauth()) {
		t.Error("a resource server that is not configured")
	}
}
