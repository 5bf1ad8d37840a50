// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"io"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Server is a running `sidecar serve`.
type Server struct {
	*process
	main, admin string
}

// Serve starts `sidecar serve` on free loopback ports and returns when it
// listens; it need not be ready by then. The process gets SIGTERM when the test
// ends and must then exit with 0.
func Serve(tb testing.TB, binary string, args ...string) *Server {
	tb.Helper()
	base := []string{
		"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--log-format", "json", "--record-dir", "off",
	}
	p := launch(tb, command(tb, binary, append(base, args...)))
	s := &Server{process: p}
	s.main = s.listener(tb, "main")
	s.admin = s.listener(tb, "admin")
	return s
}

// ServeReady is Serve, and waits for the first catalog.
func ServeReady(tb testing.TB, binary string, args ...string) *Server {
	tb.Helper()
	s := Serve(tb, binary, args...)
	s.Ready(tb)
	return s
}

// Ready waits until the log says so and returns the number of tools.
func (s *Server) Ready(tb testing.TB) int {
	tb.Helper()
	entry := s.Log(tb, "ready", func(e Entry) bool { return e.Message == "ready" })
	tools, _ := entry.Fields["tools"].(float64)
	return int(tools)
}

// Addr returns the main listener's host:port.
func (s *Server) Addr() string { return s.main }

// URL returns the main listener's URL with a path.
func (s *Server) URL(path string) string { return "http://" + s.main + path }

// AdminURL returns the admin listener's URL with a path.
func (s *Server) AdminURL(path string) string { return "http://" + s.admin + path }

func (s *Server) listener(tb testing.TB, name string) string {
	tb.Helper()
	entry := s.Log(tb, "listening on "+name, func(e Entry) bool {
		return e.Message == "listening" && e.Fields["listener"] == name
	})
	addr, _ := entry.Fields["addr"].(string)
	if addr == "" {
		tb.Fatalf("the log names no address for %s: %v", name, entry.Fields)
	}
	return addr
}

// Probe asks the admin listener for a path and returns status and body.
func (s *Server) Probe(tb testing.TB, path string) (int, string) {
	tb.Helper()
	client := &http.Client{Timeout: testkit.Limit(), Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.AdminURL(path))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
