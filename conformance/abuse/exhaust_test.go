// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// withFiles is a program that runs the sidecar with so many file descriptors.
func withFiles(t *testing.T, files int) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "sidecar")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %q \"$@\"\n", files, binary)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestHeldConnectionsDoNotStopProbes holds more connections than the process has
// file descriptors, in each way that needs no credentials.
func TestHeldConnectionsDoNotStopProbes(t *testing.T) {
	t.Parallel()
	const files, attackers = 256, 400
	server := sidecar.ServeReady(t, withFiles(t, files), "--demo", "--tokens", tokens(t), "--health", "127.0.0.1:0")
	health := address(t, server, "health")
	for name, text := range map[string]string{
		"a body that does not come": "POST /rpc HTTP/1.1\r\nHost: HOST\r\n" + jsonType + "Content-Length: 200000\r\n\r\n",
		"a foreign host":            "POST /rpc HTTP/1.1\r\nHost: evil.example\r\n" + jsonType + "Content-Length: 200000\r\n\r\n",
	} {
		hold(t, attackers, server.Addr(), strings.ReplaceAll(text, "HOST", server.Addr()))
		for _, probe := range []string{server.AdminURL("/livez"), "http://" + health + "/livez", "http://" + health + "/readyz"} {
			if err := alive(t, probe); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// hold opens connections, sends a text on each, and keeps them to the end of the
// test. Those that cannot be opened are part of the attack.
func hold(t *testing.T, n int, addr, text string) {
	t.Helper()
	dialer := net.Dialer{Timeout: time.Second}
	for range n {
		conn, err := dialer.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, text)
	}
}

// alive asks a probe on its own connection.
func alive(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// TestSilentConnectionsDoNotStopOthers: active clients are answered
// beside more connections than there may be, on every listener.
func TestSilentConnectionsDoNotStopOthers(t *testing.T) {
	t.Parallel()
	const files, attackers = 256, 400
	server := sidecar.ServeReady(t, withFiles(t, files), "--demo", "--health", "127.0.0.1:0")
	admin, health := server.AdminURL("")[len("http://"):], address(t, server, "health")
	for name, text := range map[string]string{
		"nothing":              "",
		"half a head":          "POST /rpc HTTP/1.1\r\nHost: x\r\nX-A",
		"half a preface":       "PRI * HTTP/2.0\r\n\r\n",
		"an HTTP/2 connection": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		for _, addr := range []string{server.Addr(), admin, health} {
			hold(t, attackers/3, addr, text)
		}
		for _, probe := range []string{"http://" + admin + "/livez", "http://" + health + "/livez", "http://" + health + "/metrics"} {
			if err := alive(t, probe); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Callers wait for a second at most until a silent connection may be closed.
		if err := called(t, server.URL("/rpc")); err != nil {
			t.Errorf("%s: a caller: %v", name, err)
		}
	}
}

// called sends a ping until it is answered, for a bounded time.
func called(t *testing.T, url string) error {
	t.Helper()
	var last error
	for end := time.Now().Add(slack); time.Now().Before(end); {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(ping))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: slack}
		resp, err := client.Do(req)
		if last = err; err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		last = fmt.Errorf("%s", resp.Status)
	}
	return last
}
