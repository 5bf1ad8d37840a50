// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"crypto/tls"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// TestSVID: a certificate with a SPIFFE ID is an identity only where it keeps to
// the rules of the X.509-SVID specification, on the caller's side and on the
// backend's.
func TestSVID(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewAuthority(t)
	own := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	for _, tt := range []struct {
		name, fault string
		uris        []string
		isCA        bool
	}{
		{"a valid one", "", []string{agent}, false},
		{"every character that is allowed", "", []string{"spiffe://a-z_0.9/A-Z_0.9/..."}, false},
		{"another scheme has no such rules", "", []string{"https://example.org/../x?y", "urn:x"}, false},
		{"two SPIFFE IDs", "2 URI names", []string{agent, other}, false},
		{"another URI beside it", "2 URI names", []string{"https://example.org/x", agent}, false},
		{"a SPIFFE ID in capitals beside another URI", "2 URI names", []string{"https://example.org/x", "SPIFFE://example.org/x"}, false},
		{"dot segments", "dot segment", []string{"spiffe://example.org/agents/../planner"}, false},
		{"a dot segment", "dot segment", []string{"spiffe://example.org/./planner"}, false},
		{"escaped dot segments", "letters, digits", []string{"spiffe://example.org/agents/%2e%2e/planner"}, false},
		{"an escape", "letters, digits", []string{"spiffe://example.org/agents%2Fplanner"}, false},
		{"another character", "letters, digits", []string{"spiffe://example.org/agents;v=1"}, false},
		{"an empty segment", "empty path segment", []string{"spiffe://example.org/agents//planner"}, false},
		{"a slash at the end", "empty path segment", []string{"spiffe://example.org/agents/"}, false},
		{"no path", "no path", []string{"spiffe://example.org"}, false},
		{"the root path", "no path", []string{"spiffe://example.org/"}, false},
		{"no trust domain", "no trust domain", []string{"spiffe:///agents"}, false},
		{"no authority", "no trust domain", []string{"spiffe:agents"}, false},
		{"a trust domain in capitals", "lower-case", []string{"spiffe://Example.org/agents"}, false},
		{"a port", "lower-case", []string{"spiffe://example.org:8443/agents"}, false},
		{"a user", "user information", []string{"spiffe://me@example.org/agents"}, false},
		{"a query", "query", []string{"spiffe://example.org/agents?a=b"}, false},
		{"an empty query", "query", []string{"spiffe://example.org/agents?"}, false},
		{"a fragment", "fragment", []string{"spiffe://example.org/agents#a"}, false},
		{"2,048 bytes", "", []string{"spiffe://example.org/" + strings.Repeat("x", 2027)}, false},
		{"2,049 bytes", "longer than 2048", []string{"spiffe://example.org/" + strings.Repeat("x", 2028)}, false},
		{"a long trust domain", "longer than 255", []string{"spiffe://" + strings.Repeat("x", 256) + "/agents"}, false},
		{"a signing certificate", "signing certificate", []string{agent}, true},
	} {
		shown := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}, URIs: tt.uris, IsCA: tt.isCA}).Certificate(t)
		check := func(t *testing.T, err error) {
			t.Helper()
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%v, want %q", err, tt.fault)
			}
		}
		t.Run(tt.name+", a caller's", func(t *testing.T) {
			t.Parallel()
			s, err := keys.NewServer(&configv1.ListenerTls{CertFile: own.CertFile, KeyFile: own.KeyFile, ClientCaFile: ca.File})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = shake(t, s.Config(), &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{shown}})
			check(t, err)
			if got, want := s.Refused(), uint64(0); (got == want) != (tt.fault == "") {
				t.Errorf("%d refused", got)
			}
		})
		t.Run(tt.name+", the backend's", func(t *testing.T) {
			t.Parallel()
			c, err := keys.NewClient(keys.ClientOptions{CAFile: ca.File, ServerName: "shop.example", ServerURIs: []string{"*"}})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = shake(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{shown}}, c.Config())
			check(t, err)
		})
	}
}
