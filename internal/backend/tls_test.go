// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// authority is a test CA with its files.
type authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool
	caFile string
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{dir: tb.TempDir(), pool: x509.NewCertPool()}
	a.key = newKey(tb)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.caFile = a.write(tb, "ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func (a *authority) write(tb testing.TB, name, kind string, der []byte) string {
	tb.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// issue writes a certificate and key for dnsName and 127.0.0.1.
func (a *authority) issue(tb testing.TB, name, dnsName string, usage x509.ExtKeyUsage) (certFile, keyFile string) {
	tb.Helper()
	key := newKey(tb)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{dnsName},
	}
	if dnsName == "localhost" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return a.write(tb, name+".pem", "CERTIFICATE", der), a.write(tb, name+".key", "PRIVATE KEY", keyDER)
}

// serve runs handler over TLS with the given ALPN protocols.
func (a *authority) serve(tb testing.TB, handler http.Handler, dnsName string, h1, h2, mutual bool) *remote {
	tb.Helper()
	certFile, keyFile := a.issue(tb, "server", dnsName, x509.ExtKeyUsageServerAuth)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if mutual {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, a.pool
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
	a := newAuthority(t)
	both := a.serve(t, healthMux(), "localhost", true, true, false)
	old := a.serve(t, healthMux(), "localhost", true, false, false)
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
			c := newClient(t, tc.target, Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.caFile}}})
			got, err := c.Call(t.Context(), echoProcedure, []byte("secret"), nil)
			if err != nil || string(got.Body) != "secret" || c.Protocol() != tc.want {
				t.Fatalf("got %v, %v over %v", got, err, c.Protocol())
			}
		})
	}
}

func TestTLSRefusals(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	p := a.serve(t, healthMux(), "localhost", true, true, false)
	named := a.serve(t, healthMux(), "shop.example", true, true, false)
	mutual := a.serve(t, healthMux(), "localhost", true, true, true)
	old := a.serve(t, healthMux(), "localhost", true, false, false)
	certFile, keyFile := a.issue(t, "client", "client.example", x509.ExtKeyUsageClientAuth)
	strangeCert, strangeKey := stranger.issue(t, "client", "client.example", x509.ExtKeyUsageClientAuth)
	for _, tc := range []struct {
		name string
		peer *remote
		tls  *configv1.BackendTls
		ok   bool
	}{
		{name: "trusted", peer: p, tls: &configv1.BackendTls{CaFile: a.caFile}, ok: true},
		{name: "unknown CA", peer: p, tls: &configv1.BackendTls{CaFile: stranger.caFile}},
		{name: "system roots", peer: p},
		{name: "wrong name", peer: named, tls: &configv1.BackendTls{CaFile: a.caFile}},
		{name: "name given", peer: named, tls: &configv1.BackendTls{CaFile: a.caFile, ServerName: "shop.example"}, ok: true},
		{name: "client certificate", peer: mutual, tls: &configv1.BackendTls{CaFile: a.caFile, CertFile: certFile, KeyFile: keyFile}, ok: true},
		{name: "client certificate missing", peer: mutual, tls: &configv1.BackendTls{CaFile: a.caFile}},
		{name: "client certificate of another CA", peer: mutual, tls: &configv1.BackendTls{CaFile: a.caFile, CertFile: strangeCert, KeyFile: strangeKey}},
	} {
		for _, scheme := range []string{"grpcs", "connect+https", "https"} {
			t.Run(tc.name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, tc.peer.as(scheme), Options{Config: &configv1.Backend{Tls: tc.tls}})
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
		c := newClient(t, old.as("grpcs"), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.caFile}}})
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
			t.Errorf("got %v", err)
		}
	})
	t.Run("client certificate missing, HTTP/1", func(t *testing.T) {
		t.Parallel()
		p := a.serve(t, healthMux(), "localhost", true, false, true)
		for range 20 { // the alert and the failed write race
			c := newClient(t, p.as("connect+https"), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.caFile}}})
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
	a := newAuthority(t)
	certFile, keyFile := a.issue(t, "client", "client.example", x509.ExtKeyUsageClientAuth)
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
		"plain target":        {"grpc://h:1", &configv1.BackendTls{CaFile: a.caFile}, ErrTLSUnused},
		"socket":              {"unix:///s", &configv1.BackendTls{ServerName: "x"}, ErrTLSUnused},
		"no such CA file":     {"grpcs://h:1", &configv1.BackendTls{CaFile: a.dir + "/none"}, os.ErrNotExist},
		"key as CA file":      {"grpcs://h:1", &configv1.BackendTls{CaFile: keyFile}, nil},
		"certificate alone":   {"grpcs://h:1", &configv1.BackendTls{CertFile: certFile}, nil},
		"key alone":           {"grpcs://h:1", &configv1.BackendTls{KeyFile: keyFile}, nil},
		"certificate as key":  {"grpcs://h:1", &configv1.BackendTls{CertFile: certFile, KeyFile: certFile}, nil},
		"no such certificate": {"grpcs://h:1", &configv1.BackendTls{CertFile: "none", KeyFile: keyFile}, os.ErrNotExist},
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
	a := newAuthority(t)
	certFile, keyFile := a.issue(t, "server", "localhost", x509.ExtKeyUsageServerAuth)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
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
				c := newClient(t, p.as(scheme), Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.caFile}}})
				err := c.Ping(t.Context())
				if got := c.Examine(t.Context(), FaultOf(err)); got != tc.want {
					t.Errorf("got %q, want %q: %v", got, tc.want, err)
				}
			})
		}
	}
}
