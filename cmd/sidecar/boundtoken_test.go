// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// boundTo is the claim cnf of a token that is bound to a certificate (RFC 8705).
func boundTo(c *tls.Certificate) map[string]any {
	sum := sha256.Sum256(c.Certificate[0])
	return map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}
}

// TestTokensBoundToCertificates: such a token is good on a TLS connection with its certificate,
// on every edge, and worth nothing with another one that is just as valid, or with none. The
// certificate identifies no caller.
func TestTokensBoundToCertificates(t *testing.T) {
	t.Parallel()
	const resource = "https://tools.example.org/mcp"
	ca, issuer := tlstest.NewAuthority(t), oauthtest.Start(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	oauth := []string{"--oauth-issuer", issuer.URL, "--oauth-resource", resource}
	h := startGuarded(t, append(oauth, "--tls-client-ca", ca.File, "--audit", path)...)
	asksNone := startGuarded(t, oauth...) // the other one ends connections without a certificate
	leaf := func(uri string) *tls.Certificate {
		c := ca.Issue(t, tlstest.Leaf{URIs: []string{uri}}).Certificate(t)
		return &c
	}
	own, other := leaf("spiffe://example.org/agents/ann"), leaf("spiffe://example.org/agents/ann")
	bound := issuer.Token(resource, func(c map[string]any) { c["cnf"] = boundTo(own) })
	wrong, none := "the token is bound to another client certificate", "the token is bound to a client certificate, and the connection has none"
	calls := 0
	for edge, call := range edges() {
		calls++
		for name, tt := range map[string]struct {
			shown *tls.Certificate
			want  string // the description of the refusal; "" for a good token
		}{
			"the certificate":      {own, ""},
			"another certificate":  {other, wrong},
			"no certificate":       {nil, none},
			"one of another agent": {leaf("spiffe://example.org/agents/echo"), wrong},
		} {
			t.Run(edge+"/"+name, func(t *testing.T) {
				v := h.visitor(t, bound)
				if tt.shown == nil {
					v = asksNone.visitor(t, bound)
				} else {
					v.client = h.http(t, tt.shown)
				}
				got := call(v, "lab.echo")
				switch {
				case tt.want == "" && (got.code != "" || got.challenge != ""):
					t.Errorf("a good token: %+v", got)
				case tt.want != "" && (got.code != "UNAUTHENTICATED" || got.status != 0 && got.status != http.StatusUnauthorized ||
					!strings.HasPrefix(got.challenge, `Bearer error="invalid_token", error_description="`+tt.want+`", resource_metadata="`)):
					t.Errorf("got %+v, want %s", got, tt.want)
				}
				if strings.Contains(v.heard.String(), bound) {
					t.Error("an answer repeats the token")
				}
			})
		}
	}
	h.end(t)
	callers := auditedAs(t, path, func(l *trail.AuditLine) string {
		if l.Phase != trail.PhaseEnd {
			return ""
		}
		return strings.Join([]string{l.Caller.Subject, l.Caller.Issuer, l.Caller.Source, l.Tool, l.Code}, " ")
	})
	for _, got := range callers {
		if want := "ann " + issuer.URL + " oauth lab.echo OK"; got != want {
			t.Errorf("the trail has %s, want %s", got, want)
		}
	}
	if len(callers) != calls {
		t.Errorf("%d lines of %d calls", len(callers), calls)
	}
}
