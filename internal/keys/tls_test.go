// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// shake makes one connection on loopback and sends a byte each way, because in
// TLS 1.3 a client hears of a refused certificate only when it reads.
func shake(t *testing.T, server, client *tls.Config) (atServer, atClient tls.ConnectionState, err error) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	type end struct {
		state tls.ConnectionState
		err   error
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		var nc net.Conn
		if nc, e.err = lis.Accept(); e.err == nil {
			conn := tls.Server(nc, server)
			_ = conn.SetDeadline(time.Now().Add(testkit.Limit()))
			if _, e.err = io.ReadFull(conn, make([]byte, 1)); e.err == nil {
				e.state = conn.ConnectionState()
				_, e.err = conn.Write([]byte("y"))
			}
			_ = conn.Close()
		}
		ended <- e
	}()
	nc, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(nc, client)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Limit()))
	if _, err = conn.Write([]byte("x")); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	atClient = conn.ConnectionState()
	_ = conn.Close()
	e := <-ended
	return e.state, atClient, errors.Join(err, e.err)
}

const (
	agent = "spiffe://example.org/agents/planner"
	other = "spiffe://example.org/batch"
)

func TestServer(t *testing.T) {
	t.Parallel()
	ca, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	caller := func(a *tlstest.Authority, life time.Duration, uris ...string) *tls.Certificate {
		pair := a.Issue(t, tlstest.Leaf{URIs: uris, Life: life}).Certificate(t)
		return &pair
	}
	tests := []struct {
		name  string
		ca    string
		uris  []string
		shown *tls.Certificate
		most  uint16 // the client's highest version; zero for any
		want  []string
		fault string
	}{
		{name: "no certificate asked"},
		{name: "TLS 1.2", most: tls.VersionTLS12},
		{name: "TLS 1.1", most: tls.VersionTLS11, fault: "protocol version"},
		{name: "any name", ca: ca.File, shown: caller(ca, 0, other), want: []string{other}},
		{name: "a name by pattern", ca: ca.File, uris: []string{"spiffe://example.org/agents/*"}, shown: caller(ca, 0, agent), want: []string{agent}},
		{name: "the name that is known of two", ca: ca.File, uris: []string{"urn:planner"}, shown: caller(ca, 0, "urn:batch", "urn:planner"), want: []string{"urn:planner"}},
		{name: "TLS 1.2 with a name", ca: ca.File, uris: []string{agent}, shown: caller(ca, 0, agent), most: tls.VersionTLS12, want: []string{agent}},
		{name: "another name", ca: ca.File, uris: []string{agent}, shown: caller(ca, 0, other), fault: "is not allowed"},
		{name: "a longer name", ca: ca.File, uris: []string{agent}, shown: caller(ca, 0, agent+"/x"), fault: "is not allowed"},
		{name: "no name", ca: ca.File, shown: caller(ca, 0), fault: "has no URI name"},
		{name: "no certificate", ca: ca.File, fault: "didn't provide a certificate"},
		{name: "another authority", ca: ca.File, shown: caller(stranger, 0, agent), fault: "unknown authority"},
		{name: "one that has run out", ca: ca.File, shown: caller(ca, -time.Minute, agent), fault: "expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := keys.NewServer(&configv1.ListenerTls{CertFile: own.CertFile, KeyFile: own.KeyFile, ClientCaFile: tt.ca, ClientUris: tt.uris})
			if err != nil {
				t.Fatal(err)
			}
			client := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tt.most, RootCAs: ca.Pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"}}
			if tt.shown != nil {
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.shown, nil }
			}
			atServer, atClient, err := shake(t, s.Config(), client)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("%v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Names(&atServer); !slices.Equal(got, tt.want) {
				t.Errorf("names %v, want %v", got, tt.want)
			}
			wantVersion := uint16(tls.VersionTLS13)
			if tt.most != 0 {
				wantVersion = tt.most
			}
			if atClient.Version != wantVersion || atClient.NegotiatedProtocol != "h2" {
				t.Errorf("version %x, protocol %q", atClient.Version, atClient.NegotiatedProtocol)
			}
		})
	}
	if (&keys.Server{}).Names(nil) != nil {
		t.Error("a connection without TLS has names")
	}
}

// TestServerReload: the next handshake sees new files, bad ones leave the last
// good pair in place, and an authority that is gone lets no one in any more, not
// by a session of before either.
func TestServerReload(t *testing.T) {
	t.Parallel()
	ca, next := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own := ca.Issue(t, tlstest.Leaf{Hosts: []string{"one.example"}})
	s, err := keys.NewServer(&configv1.ListenerTls{CertFile: own.CertFile, KeyFile: own.KeyFile, ClientCaFile: ca.File})
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.Config()
	client := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: ca.Pool, ServerName: "one.example", ClientSessionCache: tls.NewLRUClientSessionCache(4),
		Certificates: []tls.Certificate{ca.Issue(t, tlstest.Leaf{URIs: []string{agent}}).Certificate(t)},
	}
	reach := func(name string) error {
		client.ServerName = name
		_, _, err := shake(t, cfg, client)
		return err
	}
	if err := reach("one.example"); err != nil {
		t.Fatal(err)
	}
	ca.Reissue(t, own, tlstest.Leaf{Hosts: []string{"two.example"}})
	if err := reach("one.example"); err != nil {
		t.Errorf("before the files are read again: %v", err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := reach("two.example"); err != nil {
		t.Error(err)
	}
	expires := s.Expires()
	for name, spoil := range map[string]func(){
		"no file": func() { remove(t, own.KeyFile) },
		"no PEM":  func() { overwrite(t, own.CertFile, "hello") },
		"half of a pair": func() {
			copyFile(t, ca.Issue(t, tlstest.Leaf{Hosts: []string{"three.example"}}).CertFile, own.CertFile)
		},
		"one that ran out": func() { ca.Reissue(t, own, tlstest.Leaf{Hosts: []string{"three.example"}, Life: -time.Minute}) },
		"a huge file":      func() { overwrite(t, own.CertFile, strings.Repeat("x", 1<<20+1)) },
	} {
		ca.Reissue(t, own, tlstest.Leaf{Hosts: []string{"two.example"}})
		spoil()
		if err := s.Reload(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := reach("two.example"); err != nil {
			t.Errorf("%s: the last good pair is gone: %v", name, err)
		}
	}
	if !s.Expires().Equal(expires) {
		t.Error("the end of a pair that is not in use is shown")
	}
	ca.Reissue(t, own, tlstest.Leaf{Hosts: []string{"two.example"}})
	authorities := ca.File
	copyFile(t, next.File, authorities)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := reach("two.example"); err == nil {
		t.Error("a caller of an authority that is gone is let in")
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	ca, next := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own := ca.Issue(t, tlstest.Leaf{Hosts: []string{"shop.example", "127.0.0.1"}, URIs: []string{agent}})
	server := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.Certificate(t)}}
	for name, tt := range map[string]struct {
		opts  keys.ClientOptions
		fault string
	}{
		"by name":          {keys.ClientOptions{CAFile: ca.File, ServerName: "shop.example"}, ""},
		"by address":       {keys.ClientOptions{CAFile: ca.File, ServerName: "127.0.0.1"}, ""},
		"another name":     {keys.ClientOptions{CAFile: ca.File, ServerName: "other.example"}, "other.example"},
		"another address":  {keys.ClientOptions{CAFile: ca.File, ServerName: "127.0.0.2"}, "127.0.0.2"},
		"by URI":           {keys.ClientOptions{CAFile: ca.File, ServerName: "other.example", ServerURIs: []string{"spiffe://example.org/*"}}, ""},
		"another URI":      {keys.ClientOptions{CAFile: ca.File, ServerName: "shop.example", ServerURIs: []string{other}}, "is not allowed"},
		"URI, another CA":  {keys.ClientOptions{CAFile: next.File, ServerName: "shop.example", ServerURIs: []string{agent}}, "unknown authority"},
		"another CA":       {keys.ClientOptions{CAFile: next.File, ServerName: "shop.example"}, "unknown authority"},
		"the system's CAs": {keys.ClientOptions{ServerName: "shop.example"}, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := keys.NewClient(tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = shake(t, server, c.Config())
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%v, want %q", err, tt.fault)
			}
			var verification *tls.CertificateVerificationError
			if tt.fault != "" && !errors.As(err, &verification) {
				t.Errorf("%v is no *tls.CertificateVerificationError", err)
			}
		})
	}
	for _, o := range []keys.ClientOptions{
		{}, {ServerName: "a", CAFile: own.KeyFile}, {ServerName: "a", CAFile: "/none"}, {ServerName: "a", CertFile: own.CertFile},
		{ServerName: "a", CertFile: own.CertFile, KeyFile: ca.File},
	} {
		if _, err := keys.NewClient(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// TestClientReload: authorities and our own certificate are exchanged under a
// config that was cloned long before.
func TestClientReload(t *testing.T) {
	t.Parallel()
	ca, next := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own := ca.Issue(t, tlstest.Leaf{URIs: []string{agent}})
	roots := tlstest.NewAuthority(t)
	copyFile(t, ca.File, roots.File)
	c, err := keys.NewClient(keys.ClientOptions{CAFile: roots.File, CertFile: own.CertFile, KeyFile: own.KeyFile, ServerName: "shop.example"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(c.Files()) || len(c.Files()) != 3 {
		t.Errorf("files %v", c.Files())
	}
	cfg := c.Config().Clone()
	peer := func(a *tlstest.Authority) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool,
			Certificates: []tls.Certificate{a.Issue(t, tlstest.Leaf{Hosts: []string{"shop.example"}}).Certificate(t)},
		}
	}
	if _, _, err := shake(t, peer(ca), cfg); err != nil {
		t.Fatal(err)
	}
	next.Reissue(t, own, tlstest.Leaf{URIs: []string{agent}})
	copyFile(t, next.File, roots.File)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shake(t, peer(next), cfg); err != nil {
		t.Error(err)
	}
	if _, _, err := shake(t, peer(ca), cfg); err == nil {
		t.Error("a peer of an authority that is gone is trusted")
	}
	overwrite(t, roots.File, "hello")
	if err := c.Reload(); err == nil {
		t.Error("no error")
	}
	if _, _, err := shake(t, peer(next), cfg); err != nil {
		t.Errorf("the last good authorities are gone: %v", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, to, string(data))
}
