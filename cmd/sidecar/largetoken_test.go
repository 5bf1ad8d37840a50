// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// largeToken is a good token of 100 KB.
func largeToken(t *testing.T, issuer *oauthtest.Issuer, resource string) string {
	t.Helper()
	token := issuer.Token(resource, func(c map[string]any) { c["groups"] = strings.Repeat("g", 75<<10) })
	if len(token) < 100<<10 {
		t.Fatalf("the token has %d bytes", len(token))
	}
	return token
}

// TestTokensLargerThanHeaders: by default a token of 100 KB is larger than all headers may be.
// HTTP/1.1 answers 431 on each path. HTTP/2 tells clients the limit when they connect; a client
// that sends the token all the same loses the connection, because a header field that was not
// decoded leaves its compression undefined (RFC 9113, section 4.3).
func TestTokensLargerThanHeaders(t *testing.T) {
	t.Parallel()
	h, token, path := startOAuth(t)
	paths := map[string]string{
		"/mcp": "application/json", "/rpc": "application/json", "/outrigger.v1.ToolService/CallTool": "application/json",
		"/outrigger.v1.ToolService/Exchange": "application/grpc", "/outrigger.demo.v1.Lab/Echo": "application/grpc",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "application/grpc", "/grpc.health.v1.Health/Check": "application/grpc", "/elsewhere": "text/plain",
	}
	for to, kind := range paths {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			if got := h.large1(t, method, to, kind, token); got != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s %s, HTTP/1.1: %d", method, to, got)
			}
			if got := h.large2(t, method, to, kind, token); got != "COMPRESSION_ERROR" {
				t.Errorf("%s %s, HTTP/2: %s", method, to, got)
			}
		}
	}
	h.leavesNothing(t, path, token)
}

// TestTokensLargerThanTheirBound: where headers may be larger, a token of 100 KB is still no
// token, on any edge.
func TestTokensLargerThanTheirBound(t *testing.T) {
	t.Parallel()
	h, token, path := startOAuth(t, "--max-header-bytes", "262144")
	for edge, call := range edges() {
		got := call(h.visitor(t, token), "lab.echo")
		if got.code != "INVALID_AUTHORIZATION" || got.status != 0 && got.status != http.StatusBadRequest ||
			!strings.HasPrefix(got.challenge, `Bearer error="invalid_request", resource_metadata=`) || strings.Contains(got.said, token[:100]) {
			t.Errorf("%s: %+v", edge, got)
		}
	}
	h.leavesNothing(t, path, token)
}

// startOAuth starts a sidecar with an issuer. It returns a token of 100 KB, and the path of the
// audit trail.
func startOAuth(t *testing.T, args ...string) (h *guardedSidecar, token, path string) {
	t.Helper()
	const resource = "https://tools.example.org/mcp"
	issuer := oauthtest.Start(t)
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	h = startGuarded(t, append([]string{"--oauth-issuer", issuer.URL, "--oauth-resource", resource, "--audit", path}, args...)...)
	return h, largeToken(t, issuer, resource), path
}

// leavesNothing: nothing was invoked, and the log has no part of the token.
func (h *guardedSidecar) leavesNothing(t *testing.T, path, token string) {
	t.Helper()
	h.end(t)
	lines := auditedAs(t, path, func(l *trail.AuditLine) string {
		if l.Phase == trail.PhaseChange {
			return ""
		}
		return string(l.Raw)
	})
	if len(lines) > 0 {
		t.Errorf("something passed the door: %s", lines)
	}
	if strings.Contains(h.log.String(), token[:100]) {
		t.Error("the token is in the log")
	}
}

// large1 sends a token over HTTP/1.1, and returns the status.
func (h *guardedSidecar) large1(t *testing.T, method, to, kind, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.main+to, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", kind)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: h.ca.Pool}, Protocols: protocols}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// large2 sends a token over HTTP/2, and returns the status, or the code with which the
// connection ends. It writes frames, because a client
// that heeds the settings of its server would not send them.
func (h *guardedSidecar) large2(t *testing.T, method, to, kind, token string) string {
	t.Helper()
	address := strings.TrimPrefix(h.main, "https://")
	conn, err := (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: h.ca.Pool, NextProtos: []string{"h2"}}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(testkit.Limit())); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	writeHeaders(t, framer, method, to, kind, "Bearer "+token)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.GoAwayFrame:
			return f.ErrCode.String()
		}
	}
}

// writeHeaders opens a stream with a request that has no body.
func writeHeaders(t *testing.T, framer *http2.Framer, method, to, kind, auth string) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "127.0.0.1"}, {":path", to}, {"content-type", kind}, {"authorization", auth}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	part := block.Next(16 << 10)
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part, EndStream: true, EndHeaders: block.Len() == 0})
	for err == nil && block.Len() > 0 {
		part = block.Next(16 << 10)
		err = framer.WriteContinuation(1, block.Len() == 0, part)
	}
	if err != nil {
		t.Fatal(err)
	}
}
