// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestConnectionsThatNoHandlerHearsOf: what net/http refuses by itself is counted,
// behind TLS too, and what it only ends is not.
func TestConnectionsThatNoHandlerHearsOf(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(*testing.T, *guardedSidecar) net.Conn{
		"TLS": func(t *testing.T, h *guardedSidecar) net.Conn {
			t.Helper()
			conn := tls.Client(dialTCP(t, strings.TrimPrefix(h.main, "https://")), &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: h.ca.Pool, ServerName: "127.0.0.1"})
			if err := conn.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			return conn
		},
		"plain": func(t *testing.T, h *guardedSidecar) net.Conn {
			t.Helper()
			return dialTCP(t, strings.TrimPrefix(h.admin, "http://"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The time for headers is also that of handshakes, of the rows that are not slow, and
			// of the scrapes: a busy machine needs some of it. A quiet connection lasts longer
			// than that, so that it would count if it were measured by it.
			h := startGuarded(t, "--max-header-bytes", "4096", "--header-timeout", "3s", "--idle-timeout", "4s")
			unheard(t, h, func() net.Conn { return dial(t, h) })
		})
	}
}

// unheard makes connections of which no handler hears, one after the other, and looks what
// each counts.
func unheard(t *testing.T, h *guardedSidecar, dial func() net.Conn) {
	t.Helper()
	good := "GET /rpc HTTP/1.1\r\nHost: " + strings.TrimPrefix(h.main, "https://") + "\r\n\r\n"
	fill := "X: " + strings.Repeat("x", 16<<10) + "\r\n\r\n"
	for _, tt := range []struct {
		name        string
		send        []string // the second when the first has been answered
		slow, large int
	}{
		{"nothing is said", []string{""}, 1, 0},
		{"half of the headers", []string{"GET /rpc HTTP/1.1\r\nHost: x\r\n"}, 1, 0},
		{"half of the headers, of the second request", []string{good, "GET /rpc HTTP/1.1\r\n"}, 1, 0},
		{"too many headers", []string{"GET /rpc HTTP/1.1\r\nHost: x\r\n" + fill}, 0, 1},
		{"too many headers, of the second request", []string{good, "GET /rpc HTTP/1.1\r\nHost: x\r\n" + fill}, 0, 1},
		{"a quiet connection", []string{good}, 0, 0},
		{"no request at all", []string{"NONSENSE, more than net/http looks at for a preface of HTTP/2\r\n\r\n"}, 0, 0},
	} {
		slow, large := h.limit(t, "read_header_timeout"), h.limit(t, "max_header_bytes")
		conn := dial()
		for i, text := range tt.send {
			if i > 0 {
				answered(t, conn)
			}
			_, _ = io.WriteString(conn, text) // a server that has heard enough reads no further
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		if tt.slow+tt.large == 0 {
			time.Sleep(600 * time.Millisecond) // as long as net/http waits at most before it ends a connection
		}
		testkit.Try(t, tt.name, func() error { // net/http ends a connection half a second after it has refused it
			if nowSlow, nowLarge := h.limit(t, "read_header_timeout"), h.limit(t, "max_header_bytes"); nowSlow != slow+tt.slow || nowLarge != large+tt.large {
				return fmt.Errorf("slow went from %d to %d, large from %d to %d", slow, nowSlow, large, nowLarge)
			}
			return nil
		})
	}
}

// answered reads the answer to a request, whose body is short.
func answered(t *testing.T, conn net.Conn) {
	t.Helper()
	buf := make([]byte, 4096)
	if n, err := conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 ") {
		t.Fatalf("%q, %v", buf[:n], err)
	}
}

// limit is how often a limit has refused something.
func (h *guardedSidecar) limit(t *testing.T, name string) int {
	t.Helper()
	// A client that keeps connections may also make one that it then does not need,
	// and a connection that says nothing counts.
	scraper := oneShot()
	page, _ := get(t, scraper, h.admin+"/metrics")
	n := 0
	if _, err := fmt.Sscan(limitRefused(page, name), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
