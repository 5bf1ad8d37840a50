// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// unread asks for an answer of so many bytes on its own connection, and does
// not read it.
func (s *limited) unread(t *testing.T, size int) net.Conn {
	t.Helper()
	dialer := net.Dialer{Control: testkit.SmallWindow}
	conn, err := dialer.DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := fmt.Sprintf(echoes, strings.Repeat("A", size))
	if _, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.address, len(body), body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// largeAnswer is more than the kernel keeps of an answer for a peer with a small
// window, and less than the tool takes.
const largeAnswer = 1_500_000

func meetWriteTimeout(t *testing.T, s *limited) {
	t.Helper()
	conn := s.unread(t, largeAnswer)
	testkit.Until(t, "the connection is closed", func() bool { return limitRefused(s.metrics(t), "write_timeout") == "1" })
	if n, err := io.Copy(io.Discard, conn); err == nil || n >= largeAnswer {
		t.Errorf("%d bytes came, %v", n, err)
	}
}

func meetBuffered(t *testing.T, s *limited) {
	t.Helper()
	for range 2 {
		s.unread(t, largeAnswer)
	}
	testkit.Until(t, "one is closed", func() bool { return limitRefused(s.metrics(t), "max_buffered_bytes") != "0" })
}

// meetToolShare has calls of one tool hold its share of the queue, while a call of another waits too.
func meetToolShare(t *testing.T, s *limited) {
	t.Helper()
	if status, text, _, err := s.post("/rpc", fmt.Sprintf(echoes, "AAAA")); err != nil || status != 200 {
		t.Fatalf("another tool: %d %s, %v", status, text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	send := func(body string, queued int) {
		t.Helper()
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/rpc", strings.NewReader(body))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		want := fmt.Sprintf(`outrigger_limit_used{limit="max_queued_calls"} %d`, queued)
		running := `outrigger_limit_used{limit="max_concurrent_calls"} 1`
		testkit.Until(t, want, func() bool {
			page := s.metrics(t)
			return strings.Contains(page, want) && strings.Contains(page, running)
		})
	}
	for i := range 6 {
		send(fmt.Sprintf(sleeper, i, "60s"), i)
	}
	// The share holds only while others are called, and the first call of another may be long ago on a busy machine.
	send(fmt.Sprintf(echoes, "AAAA"), 6)
	refuses(fmt.Sprintf(sleeper, 9, "0s"), 503, "UNAVAILABLE")(t, s)
	if page := s.metrics(t); !regexp.MustCompile(`outrigger_queue_rejected_total\{limit="tool_share_percent",tool="[a-z.]+"\} 1`).MatchString(page) {
		t.Error("it is not counted for its tool")
	}
}

// meetShare has one caller hold its share of the sessions, which ends its own.
func meetShare(t *testing.T, s *limited) {
	t.Helper()
	for n := range 5 {
		s.subscribed(t)
		want := fmt.Sprintf("outrigger_limit_used{limit=\"max_streams\"} %d\n", n+1)
		testkit.Until(t, want, func() bool { return strings.Contains(s.metrics(t), want) })
	}
	if text, err := io.ReadAll(s.subscribed(t).Body); err != nil || !strings.Contains(string(text), `"code":"resource_exhausted"`) {
		t.Errorf("one stream over the share: %q, %v", text, err)
	}
}
