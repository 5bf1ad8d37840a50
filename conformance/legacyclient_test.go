// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// TestLegacyClient uses the Go SDK's client in front of the fixture as clients of
// the legacy revisions do: initialize, a session, and questions from the server.
func TestLegacyClient(t *testing.T) {
	t.Parallel()
	everyTransport(t, caller.LegacyVersion, map[string]func(*testing.T, *sdkClient){
		"headers":         func(t *testing.T, _ *sdkClient) { absent(t, "MCP 2025-11-25 has no arguments in headers") },
		"no capabilities": legacyPlain,
		"log level":       legacyLogLevel,
		"resume":          legacyResume,
		"end session":     legacyEnd,
		"tasks":           func(t *testing.T, _ *sdkClient) { absent(t, "MCP 2025-11-25 has no tasks extension") },
	})
}

// legacyPlain is a client that can do nothing. The legacy revisions have no error
// for that, so the call fails as a call.
func legacyPlain(t *testing.T, c *sdkClient) {
	plain := c.plain(t)
	for _, name := range []string{"test_missing_capability", "test_input_required_result_elicitation", "failing_job"} {
		result, err := plain.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		if err != nil || !result.IsError {
			t.Fatalf("%s: %+v, %v", name, result, err)
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || !strings.Contains(text.Text, "needs a client with this capability") {
			t.Errorf("%s says %+v", name, result.Content[0])
		}
	}
}

// legacyLogLevel sets the level of the session.
func legacyLogLevel(t *testing.T, c *sdkClient) {
	s := c.open(t)
	for _, level := range []mcp.LoggingLevel{"error", "info"} { //nolint:staticcheck // MCP deprecates logging, and clients have it
		if err := s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: level}); err != nil { //nolint:staticcheck // the same
			t.Fatal(err)
		}
		s.text(t, "test_tool_with_logging", "{}")
	}
	s.hasLogs(t)
}

// legacyResume calls a tool during which the sidecar closes the connection: the
// SDK has to come back for the result.
func legacyResume(t *testing.T, c *sdkClient) {
	if c.stdio {
		absent(t, "stdio has no connections to come back to")
	}
	traffic := &traffic{inner: c.http.Transport}
	returning := *c
	returning.http, returning.retries = &http.Client{Transport: traffic}, 3
	s := returning.open(t)
	if got := s.text(t, "test_reconnection", "{}"); !strings.HasPrefix(got, "The reader of this") {
		t.Errorf("got %q", got)
	}
	if traffic.count(func(r *http.Request, status int) bool {
		return r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") != "" && status == http.StatusOK
	}) == 0 {
		t.Error("the SDK never came back with Last-Event-ID")
	}
}

// legacyEnd closes a session, which is then unknown.
func legacyEnd(t *testing.T, c *sdkClient) {
	if c.stdio {
		absent(t, "stdio has no sessions but the process")
	}
	traffic := &traffic{inner: c.http.Transport}
	ending := *c
	ending.http = &http.Client{Transport: traffic}
	s := ending.open(t)
	id := s.ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if traffic.count(func(r *http.Request, status int) bool {
		return r.Method == http.MethodDelete && r.Header.Get("Mcp-Session-Id") == id && status == http.StatusNoContent
	}) != 1 {
		t.Errorf("session %q was not ended", id)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.addr+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", caller.LegacyVersion)
	req.Header.Set("Mcp-Session-Id", id)
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("the session that ended answers with %d", res.StatusCode)
	}
}

// traffic remembers what a client sent and how it was answered.
type traffic struct {
	inner http.RoundTripper

	mu   sync.Mutex
	seen []exchanged
}

type exchanged struct {
	request *http.Request
	status  int
}

// RoundTrip implements [http.RoundTripper].
func (t *traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.inner.RoundTrip(r)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.seen = append(t.seen, exchanged{r, res.StatusCode})
	}
	return res, err
}

func (t *traffic) count(match func(*http.Request, int) bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.seen {
		if match(e.request, e.status) {
			n++
		}
	}
	return n
}
