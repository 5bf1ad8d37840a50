// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

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
			err := config.Verify(config.Serve, c, config.Options{Checks: settings.Checks(config.Serve)})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
