// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// onLoopback is the certificate of a server on loopback.
func onLoopback() tlstest.Leaf { return tlstest.Leaf{Hosts: []string{"localhost", "127.0.0.1"}} }

// serveOver runs handler over TLS with the given ALPN protocols and a certificate for it.
func serveOver(tb testing.TB, a *tlstest.Authority, handler http.Handler, leaf tlstest.Leaf, h1, h2, mutual bool) *remote {
	tb.Helper()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.Issue(tb, leaf).Certificate(tb)}}
	if mutual {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(h1)
	protocols.SetHTTP2(h2)
	if h2 {
		cfg.NextProtos = append(cfg.NextProtos, "h2")
	}
	if h1 {
		cfg.NextProtos = append(cfg.NextProtos, "http/1.1")
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	url := "https://" + lis.Addr().String()
	return serveOn(tb, tls.NewListener(lis, cfg), url, handler, protocols)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	both := serveOver(t, a, healthMux(), onLoopback(), true, true, false)
	old := serveOver(t, a, healthMux(), onLoopback(), true, false, false)
	for _, tc := range []struct {
		name, target string
		want         Protocol
	}{
		{"gRPC", both.as("grpcs"), ProtocolGRPC},
		{"probed", both.as("https"), ProtocolGRPC},
		{"Connect", both.as("connect+https"), ProtocolConnect},
		{"gRPC-Web", both.as("grpcweb+https"), ProtocolGRPCWeb},
		{"probed, HTTP/1", old.as("https"), ProtocolConnect},
		{"Connect, HTTP/1", old.as("connect+https"), ProtocolConnect},
		{"gRPC-Web, HTTP/1", old.as("grpcweb+https"), ProtocolGRPCWeb},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, tc.target, Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.File}}})
			got, err := c.Call(t.Context(), echoProcedure, []byte("secret"), nil)
			if err != nil || string(got.Body) != "secret" || c.Protocol() != tc.want {
				t.Fatalf("got %v, %v over %v", got, err, c.Protocol())
			}
		})
	}
}

func TestTLSRefusals(t *testing.T) {
	t.Parallel()
	a, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	p := serveOver(t, a, healthMux(), onLoopback(), true, true, false)
	named := serveOver(t, a, healthMux(), tlstest.Leaf{Hosts: []string{"shop.example"}}, true, true, false)
	mutual := serveOver(t, a, healthMux(), onLoopback(), true, true, true)
	old := serveOver(t, a, healthMux(), onLoopback(), true, false, false)
	client, strange := a.Issue(t, tlstest.Leaf{}), stranger.Issue(t, tlstest.Leaf{})
	for _, tc := range []struct {
		name string
		peer *remote
		tls  *configv1.BackendTls
		ok   bool
	}{
		{name: "trusted", peer: p, tls: &configv1.BackendTls{CaFile: a.File}, ok: true},
		{name: "unknown CA", peer: p, tls: &configv1.BackendTls{CaFile: stranger.File}},
		{name: "system roots", peer: p},
		{name: "wrong name", peer: named, tls: &configv1.BackendTls{CaFile: a.File}},
		{name: "name given", peer: named, tls: &configv1.BackendTls{CaFile: a.File, ServerName: "shop.example"}, ok: true},
		{name: "client certificate", peer: mutual, tls: &configv1.BackendTls{CaFile: a.File, CertFile: client.CertFile, KeyFile: client.KeyFile}, ok: true},
		{name: "client certificate missing", peer: mutual, tls: &configv1.BackendTls{CaFile: a.File}},
		{name: "client certificate of another CA", peer: mutual, tls: &configv1.BackendTls{CaFile: a.File, CertFile: strange.CertFile, KeyFile: strange.KeyFile}},
	} {
		for _, scheme := range []string{"grpcs", "connect+https", "https"} {
			t.Run(tc.name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, tc.peer.as(scheme), patient(tc.tls))
				_, err := c.Call(t.Context(), echoProcedure, nil, nil)
				if tc.ok {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
					t.Errorf("got %v, sent %v", err, e.Sent)
				}
			})
		}
	}
	t.Run("no HTTP/2 for gRPC", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, old.as("grpcs"), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.File}}})
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
			t.Errorf("got %v", err)
		}
	})
	t.Run("client certificate missing, HTTP/1", func(t *testing.T) {
		t.Parallel()
		p := serveOver(t, a, healthMux(), onLoopback(), true, false, true)
		for range 20 { // the alert and the failed write race
			c := newClient(t, p.as("connect+https"), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.File}}})
			_, err := c.Call(t.Context(), echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
				t.Errorf("got %v, sent %v", err, e.Sent)
			}
		}
	})
	t.Run("plain client, TLS server", func(t *testing.T) {
		t.Parallel()
		raw := rawPeer(t, text("\x15\x03\x01\x00\x02\x02\x46")) // alert: protocol version
		for _, scheme := range allSchemes() {
			c := newClient(t, raw.as(scheme), Options{})
			_, err := c.Call(t.Context(), echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindUnreachable {
				t.Errorf("%s: got %v", scheme, err)
			}
		}
	})
}

func TestTLSOptions(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	client := a.Issue(t, tlstest.Leaf{})
	target := func(s string) Target {
		parsed, err := ParseTarget(s)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for name, tc := range map[string]struct {
		target string
		tls    *configv1.BackendTls
		want   error // nil: any
	}{
		"plain target":        {"grpc://h:1", &configv1.BackendTls{CaFile: a.File}, ErrTLSUnused},
		"socket":              {"unix:///s", &configv1.BackendTls{ServerName: "x"}, ErrTLSUnused},
		"no such CA file":     {"grpcs://h:1", &configv1.BackendTls{CaFile: "none"}, os.ErrNotExist},
		"key as CA file":      {"grpcs://h:1", &configv1.BackendTls{CaFile: client.KeyFile}, nil},
		"certificate alone":   {"grpcs://h:1", &configv1.BackendTls{CertFile: client.CertFile}, nil},
		"key alone":           {"grpcs://h:1", &configv1.BackendTls{KeyFile: client.KeyFile}, nil},
		"certificate as key":  {"grpcs://h:1", &configv1.BackendTls{CertFile: client.CertFile, KeyFile: client.CertFile}, nil},
		"no such certificate": {"grpcs://h:1", &configv1.BackendTls{CertFile: "none", KeyFile: client.KeyFile}, os.ErrNotExist},
	} {
		_, err := New(target(tc.target), Options{Config: &configv1.Backend{Tls: tc.tls}})
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := New(Target{}, Options{}); err == nil {
		t.Error("the zero target is accepted")
	}
}

// TestTLSByURI: a backend that is known by a URI name need not carry its host's,
// and one that carries another is not spoken to.
func TestTLSByURI(t *testing.T) {
	t.Parallel()
	const shop = "spiffe://example.org/shop"
	ca := tlstest.NewAuthority(t)
	p := serveTLS(t, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{ca.Issue(t, tlstest.Leaf{Hosts: []string{"elsewhere.example"}, URIs: []string{shop}}).Certificate(t)},
	})
	for name, tc := range map[string]struct {
		uris []string
		ok   bool
	}{"its name": {[]string{shop}, true}, "a pattern": {[]string{"spiffe://example.org/*"}, true}, "another": {[]string{shop + "/x"}, false}, "its host": {nil, false}} {
		c := newClient(t, p.as("grpcs"), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: ca.File, ServerUris: tc.uris}}})
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := newClient(t, "grpc://127.0.0.1:1", Options{}); c.ReloadTLS() != nil || c.TLSFiles() != nil {
		t.Error("a plain backend has TLS files")
	}
	target, err := ParseTarget("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(target, Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{ServerUris: []string{shop}}}}); !errors.Is(err, ErrTLSUnused) {
		t.Errorf("URI names for a plain backend: %v", err)
	}
}

// TestTLSIsReadAgain: a new connection shows the new certificate, and files that
// cannot be used change nothing.
func TestTLSIsReadAgain(t *testing.T) {
	t.Parallel()
	ca, next := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own := ca.Issue(t, tlstest.Leaf{})
	p := serveTLS(t, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: next.Pool,
		Certificates: []tls.Certificate{ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1", "localhost"}}).Certificate(t)},
	})
	c := newClient(t, p.as("grpcs"), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: ca.File, CertFile: own.CertFile, KeyFile: own.KeyFile}}})
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err == nil {
		t.Fatal("a certificate of the wrong authority will do")
	}
	next.Reissue(t, own, tlstest.Leaf{})
	if err := c.ReloadTLS(); err != nil || len(c.TLSFiles()) != 3 {
		t.Fatal(err, c.TLSFiles())
	}
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(own.KeyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.ReloadTLS(); err == nil {
		t.Error("no error")
	}
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil {
		t.Error(err)
	}
}

// serveTLS runs the peer of these tests over HTTP/2.
func serveTLS(t *testing.T, cfg *tls.Config) *remote {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return serveOn(t, tls.NewListener(lis, cfg), "https://"+lis.Addr().String(), healthMux(), protocols)
}

// TestAClientCertificateThatWasAskedFor has servers that close a connection without an alert, as those of OpenSSL and
// Node do where the client has no certificate. Whether a server asked for one tells the fault.
func TestAClientCertificateThatWasAskedFor(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	pair := a.Issue(t, onLoopback()).Certificate(t)
	for name, tc := range map[string]struct {
		asks    tls.ClientAuthType
		version uint16
		want    Fault
	}{
		"asks, TLS 1.3":         {tls.RequestClientCert, tls.VersionTLS13, FaultClientCertificate},
		"asks, TLS 1.2":         {tls.RequestClientCert, tls.VersionTLS12, FaultClientCertificate},
		"does not ask, TLS 1.3": {tls.NoClientCert, tls.VersionTLS13, FaultHungUp},
	} {
		for _, scheme := range []string{"grpcs", "connect+https", "https"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				p := rawPeer(t, func(nc net.Conn) {
					defer func() { _ = nc.Close() }()
					_ = tls.Server(nc, &tls.Config{
						MinVersion: tls.VersionTLS12, MaxVersion: tc.version, Certificates: []tls.Certificate{pair},
						ClientAuth: tc.asks, NextProtos: []string{"h2", "http/1.1"},
					}).HandshakeContext(t.Context())
				})
				c := newClient(t, p.as(scheme), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.File}}})
				err := c.Ping(t.Context())
				if got := c.Examine(t.Context(), FaultOf(err)); got != tc.want {
					t.Errorf("got %q, want %q: %v", got, tc.want, err)
				}
			})
		}
	}
}
