// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// TestStrangersDoNotFillTheLog floods every edge of a sidecar that asks who calls,
// without credentials, with wrong ones, and with connections that are no TLS. The
// log grows as SECURITY.md says, also at debug level.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	before, began := strings.Count(h.log.String(), "\n"), time.Now()
	const each = 60
	var flood sync.WaitGroup
	for _, token := range []string{"", unknownToken} {
		for _, path := range []string{"/rpc", "/mcp", "/outrigger.v1.ToolService/CallTool", "/outrigger.demo.v1.Lab/Echo", "/nothing"} {
			flood.Go(func() {
				v := h.visitor(t, token)
				for range each {
					if resp, raw := v.post(path, `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`); resp.StatusCode != http.StatusUnauthorized {
						t.Errorf("%s: %d %s", path, resp.StatusCode, raw)
					}
				}
			})
		}
	}
	flood.Go(func() {
		for range each {
			nc, err := net.Dial("tcp", strings.TrimPrefix(h.main, "https://"))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\n\r\n")
			_, _ = io.ReadAll(nc)
			_ = nc.Close()
		}
	})
	flood.Wait()
	if resp, raw := h.visitor(t, plannerToken).post("/rpc", `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`); resp.StatusCode != http.StatusOK {
		t.Errorf("a caller meanwhile: %d %s", resp.StatusCode, raw)
	}
	lines := strings.Count(h.log.String(), "\n") - before
	// A burst and a rate for requests, the same for connections; the caller's own line.
	most := 2*int(float64(loglimit.PerSecond)*(1+time.Since(began).Seconds())) + 3
	if lines > most {
		t.Errorf("%d lines in %v, want at most %d", lines, time.Since(began), most)
	}
}

// TestMalformedMessagesDoNotFillTheLog: without authentication, anybody can
// send what is no request.
func TestMalformedMessagesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	before, began := strings.Count(h.log.String(), "message refused"), time.Now()
	v := h.visitor(t, plannerToken)
	for i := range 300 {
		path := []string{"/rpc", "/mcp"}[i%2]
		if resp, raw := v.post(path, `{"jsonrpc"`); resp.StatusCode != http.StatusBadRequest {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, raw)
		}
	}
	lines := strings.Count(h.log.String(), "message refused") - before
	if most := int(float64(loglimit.PerSecond) * (2 + time.Since(began).Seconds())); lines == 0 || lines > most {
		t.Errorf("%d lines in %v, want at most %d and some", lines, time.Since(began), most)
	}
}

// TestACertificateThatIsNoSVIDIsCounted: a caller whose certificate carries two
// SPIFFE IDs is not let in, and operators can see that.
func TestACertificateThatIsNoSVIDIsCounted(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewAuthority(t)
	h := startGuarded(t, "--tls-client-ca", ca.File)
	for _, uris := range [][]string{{agentURI, "spiffe://example.org/other"}, {"spiffe://example.org/agents/../agents/echo"}} {
		pair := ca.Issue(t, tlstest.Leaf{URIs: uris}).Certificate(t)
		conn, err := tls.Dial("tcp", strings.TrimPrefix(h.main, "https://"), &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: h.ca.Pool, Certificates: []tls.Certificate{pair},
		})
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 a client hears of it late
			_ = conn.Close()
		}
		if err == nil {
			t.Errorf("%v: the handshake succeeds", uris)
		}
	}
	testkit.Says(t, h.log, "not a valid SPIFFE certificate")
	testkit.Until(t, "the handshakes are counted", func() bool { // a client may be gone before the server has seen its certificate
		_, page := get2(t, h.admin+"/metrics")
		return strings.Contains(page, `outrigger_unauthenticated_total{reason="certificate"} 2`)
	})
}

// A line of the log has one end for every reader and shows all that it holds, in both
// formats.
func TestTheLogShowsAllThatItHolds(t *testing.T) {
	t.Parallel()
	const unseen = "\u0085\u2028\u2029\u202e\u2066\u200b\ufeff\x7f"
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log, _, err := newLogger(&configv1.Config{Log: &configv1.Log{Format: &format}}, environment{stderr: &out})
		if err != nil {
			t.Fatal(err)
		}
		log.Named(unseen).With(zap.String(unseen, unseen)).Info(unseen, zap.Strings("list", []string{unseen}), zap.Error(errors.New(unseen)))
		if got := out.String(); strings.ContainsAny(got, unseen) || strings.Count(got, `\u2028`) != 6 || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %+q", format, got)
		}
	}
}

func get2(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fetch(t, req)
}
