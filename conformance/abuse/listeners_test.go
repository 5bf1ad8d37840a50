// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// slack is what a busy machine may add to a time that the sidecar promises. It is
// far below the times that the sidecars of these tests have for bodies.
const slack = 8 * time.Second

// bodyTime is how long the sidecars wait for a body that they want.
const bodyTime = "2m"

// listener is where an attack goes.
type listener struct {
	name, addr string
	tls        *tls.Config // nil for a plain one
	paths      []string
	// guarded: requests without a token are refused before anything else.
	guarded bool
	main    bool
}

// dial connects to a listener, with the protocol in the handshake where there is
// one.
func (l listener) dial(t *testing.T, protocol string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * slack)); err != nil {
		t.Fatal(err)
	}
	if l.tls == nil {
		return conn
	}
	config := l.tls.Clone()
	config.NextProtos = []string{protocol}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	return secured
}

var (
	mainPaths   = []string{"/mcp", "/rpc", "/outrigger.v1.ToolService/CallTool", "/outrigger.v1.ToolService/Exchange", "/outrigger.v1.ToolService/RegisterTool", "/outrigger.demo.v1.Lab/Echo", "/nothing"}
	adminPaths  = []string{"/livez", "/readyz", "/metrics", "/trust", "/debug/pprof/", "/refresh", "/nothing"}
	healthPaths = []string{"/livez", "/metrics", "/nothing"}
)

// listeners starts sidecars and returns all kinds of listeners: open, with tokens,
// with TLS, and those for operators.
func listeners(t *testing.T) []listener {
	t.Helper()
	open := sidecar.ServeReady(t, binary, "--demo", "--body-timeout", bodyTime, "--health", "127.0.0.1:0")
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	shut := sidecar.ServeReady(t, binary, "--demo", "--body-timeout", bodyTime,
		"--tokens", tokens(t), "--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile)
	return []listener{
		{name: "main", addr: open.Addr(), paths: mainPaths, main: true},
		{name: "main with TLS and tokens", addr: shut.Addr(), paths: mainPaths, main: true, guarded: true,
			tls: &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}},
		{name: "admin", addr: open.AdminURL("")[len("http://"):], paths: adminPaths},
		{name: "health", addr: address(t, open, "health"), paths: healthPaths},
	}
}

// address is where a listener of a sidecar is.
func address(t *testing.T, s *sidecar.Server, name string) string {
	t.Helper()
	entry := s.Log(t, "listening on "+name, func(e sidecar.Entry) bool {
		return e.Message == "listening" && e.Fields["listener"] == name
	})
	addr, _ := entry.Fields["addr"].(string)
	return addr
}

// tokens is a callers file of which no test knows a token.
func tokens(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callers.yaml")
	text := "callers:\n  - name: someone-else\n    token_sha256: [\"1154d6147aa1556b2790fdd3c3a1c5013b1633ba434f07f47a3e3ab0469399ce\"]\n    tools: [\"*\"]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
