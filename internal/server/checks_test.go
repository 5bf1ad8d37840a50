// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server"
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
	return config.Load(config.Serve, flags, nil, config.Options{Checks: server.Checks(false)})
}

// TestConfigurationsOfThePageLoad: what readers paste from the page about identity
// providers is accepted, and makes a resource server with the page's scopes.
func TestConfigurationsOfThePageLoad(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../docs/identity-providers.md"))
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

// TestFaultsOfTheRateService are found before a port opens.
func TestFaultsOfTheRateService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"TLS settings without TLS", "rate_service: {url: 'grpc://a:1', tls: {ca_file: ca.pem}}", "rate_service.tls: has no effect without TLS: use grpcs:// in rate_service.url"},
		{"no such file", "rate_service: {url: 'grpcs://a:1', tls: {ca_file: none.pem}}", "rate_service.tls: CA file: open none.pem"},
		{"no such port", "rate_service: {url: 'grpc://a:70000'}", `rate_service.url: port "70000" is not in 1..65535`},
		{"nothing wrong", "rate_service: {url: 'grpc://a:1'}", ""},
		{"a socket", "rate_service: {url: 'grpc+unix:///run/rate.sock'}", ""},
	} {
		_, err := load(t, tt.yaml+"\n")
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestHowServersAreReached: files that cannot be used are named before anything is fetched.
func TestHowServersAreReached(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("files.example.com bearer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Defaults(config.Once)
	cfg.Catalog.Descriptors = []string{"https://files.example.com/api.binpb"}
	cfg.Catalog.FetchCaFile, cfg.Catalog.FetchCredentialsFile, cfg.Catalog.FetchDockerHelpers = file, file, true
	err := config.Verify(config.Once, cfg, config.Options{Checks: server.Checks(true)})
	for _, part := range []string{"catalog.fetch_ca_file: CA file " + file + ": contains no certificate", "catalog.fetch_credentials_file: credentials: " + file + ":1: want a line"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
}

// key is an Ed25519 key of RFC 8037, appendix A.1.
const key = `{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`

// TestIdentityChecks: what is wrong with the identity is a start error that names the
// setting.
func TestIdentityChecks(t *testing.T) {
	t.Parallel()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	signed := func(c *configv1.Config) {
		c.Backend.Identity.Mode = proto.String("signed")
		s := c.Backend.Identity.Signed
		s.KeyFile, s.Issuer, s.Audience = file("key", key), "sidecar", "shop"
	}
	exchange := func(c *configv1.Config) {
		c.Backend.Identity.Mode = proto.String("exchange")
		c.Backend.Identity.Exchange.TokenUrl = "https://login.example.com/token"
	}
	tests := []struct {
		name   string
		change []func(*configv1.Config)
		want   string // a part of the error; "" for none
	}{
		{"header", nil, ""},
		{"signed", []func(*configv1.Config){signed}, ""},
		{"exchange", []func(*configv1.Config){exchange}, ""},
		{"none", []func(*configv1.Config){func(c *configv1.Config) { c.Backend.Identity.Mode = proto.String("none") }}, ""},
		{"another mode", []func(*configv1.Config){func(c *configv1.Config) { c.Backend.Identity.Mode = proto.String("oauth") }}, "backend.identity.mode"},
		{"exchange without a URL", []func(*configv1.Config){exchange, func(c *configv1.Config) { c.Backend.Identity.Exchange.TokenUrl = "" }}, "--exchange-url"},
		{"exchange in plaintext", []func(*configv1.Config){exchange, func(c *configv1.Config) { c.Backend.Identity.Exchange.TokenUrl = "http://login.example.com/token" }}, "must use https"},
		{"no client", []func(*configv1.Config){exchange, func(c *configv1.Config) { c.Backend.Identity.Exchange.ClientSecretFile = "x" }}, "--exchange-client"},
		{"no secret", []func(*configv1.Config){exchange, func(c *configv1.Config) {
			c.Backend.Identity.Exchange.ClientId, c.Backend.Identity.Exchange.ClientSecretFile = "a", "/nowhere"
		}}, "client secret"},
		{"signed without a key", []func(*configv1.Config){signed, func(c *configv1.Config) { c.Backend.Identity.Signed.KeyFile = "" }}, "--signing-key"},
		{"signed without an audience", []func(*configv1.Config){signed, func(c *configv1.Config) { c.Backend.Identity.Signed.Audience = "" }}, "--signing-audience"},
		{"no such key", []func(*configv1.Config){signed, func(c *configv1.Config) { c.Backend.Identity.Signed.KeyFile = "/nowhere" }}, "backend.identity.signed.key_file"},
		{"a token file too", []func(*configv1.Config){signed, func(c *configv1.Config) { c.Backend.Credentials.TokenFile = file("token", "0123456789") }}, "backend.credentials.token_file"},
		{"a fixed header too", []func(*configv1.Config){exchange, func(c *configv1.Config) {
			c.Backend.Metadata.Static = map[string]string{"authorization": "Basic 0123456789"}
		}}, "backend.metadata.static"},
		{"a header of a file too", []func(*configv1.Config){exchange, func(c *configv1.Config) {
			c.Backend.Metadata.StaticFile = file("headers", "Authorization: Basic 0123456789\n")
		}}, "backend.metadata.static_file"},
		{"another header beside it", []func(*configv1.Config){exchange, func(c *configv1.Config) {
			c.Backend.Metadata.Static = map[string]string{"x-tenant": "shop"}
		}}, ""},
		{"a token file with the header", []func(*configv1.Config){func(c *configv1.Config) { c.Backend.Credentials.TokenFile = file("token", "0123456789") }}, ""},
		{"a plaintext backend", []func(*configv1.Config){signed, func(c *configv1.Config) { c.Backend.Url = "http://shop.example.com:80" }}, "without TLS"},
		{"a plaintext backend in a mesh", []func(*configv1.Config){signed, func(c *configv1.Config) {
			c.Backend.Url, c.Backend.Credentials.AllowPlaintext = "http://shop.example.com:80", true
		}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config.Defaults(config.Serve)
			c.Backend.Url = "http://127.0.0.1:50051"
			for _, change := range tt.change {
				change(c)
			}
			err := config.Verify(config.Serve, c, config.Options{Checks: server.Checks(false)})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
