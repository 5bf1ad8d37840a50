// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

// meetConnections opens more silent connections than there may be, and then asks for
// something.
func meetConnections(n int) func(*testing.T, *limited) {
	return func(t *testing.T, s *limited) {
		t.Helper()
		for range n {
			dialTCP(t, s.address)
		}
		// The silent ones make room once they have been so for a moment.
		until(t, "a caller is answered", func() bool {
			status, _, _, err := s.post("/rpc", ping)
			return err == nil && status == http.StatusOK
		})
	}
}

// meetAge asks on one connection until an answer ends it.
func meetAge(t *testing.T, s *limited) {
	t.Helper()
	conn := dialTCP(t, s.address)
	in := bufio.NewReader(conn)
	asked := 0
	until(t, "an answer says goodbye", func() bool {
		asked++
		if _, err := io.WriteString(conn, "GET /rpc HTTP/1.1\r\nHost: "+s.address+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("request %d: %v", asked, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.Close
	})
	if asked < 2 {
		t.Errorf("the first answer ends it")
	}
}

// meetCut has a call in flight for longer than its connection lasts.
func meetCut(t *testing.T, s *limited) {
	t.Helper()
	conn := dialTCP(t, s.address)
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(sleeper, 1, "25s")
	_, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.address, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if got, _ := io.ReadAll(conn); len(got) > 0 || time.Since(begun) > 20*time.Second {
		t.Errorf("after %v: %q", time.Since(begun), got)
	}
}

// TestGatesInForce: what is not configured follows from what is.
func TestGatesInForce(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults(config.Serve)
	g := newConnGates(cfg, zap.NewNop()).callers
	if g.PerPeer != g.Most/2 || !g.ExemptLoopback || g.Age != time.Hour || g.Grace != 0 {
		t.Errorf("by default %+v", g)
	}
	cfg.Limits.MaxConnectionsPerPeer = new(int32(7))
	cfg.Listeners.Tls = &configv1.ListenerTls{ClientCaFile: "ca.pem"}
	if g = newConnGates(cfg, zap.NewNop()).callers; g.PerPeer != 7 || g.ExemptLoopback || g.Grace != certificateGrace {
		t.Errorf("with certificates and a bound for peers %+v", g)
	}
	core, logs := observer.New(zap.InfoLevel)
	cfg.Limits.MaxConnections = new(int32(1 << 20))
	if newConnGates(cfg, zap.New(core)); logs.Len() > 1 {
		t.Errorf("%v", logs.All())
	}
	for _, note := range logs.All() {
		if !strings.Contains(note.Message, "--max-connections") || note.ContextMap()["open_files"] == nil {
			t.Errorf("%s %v", note.Message, note.ContextMap())
		}
	}
}

// TestOperatorsAreAnsweredBesideSilentConnections to their own listener.
func TestOperatorsAreAnsweredBesideSilentConnections(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	p.hear(t)
	address := strings.TrimPrefix(p.admin, "http://")
	for range 100 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	until(t, "a probe is answered", func() bool {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/livez")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}
