// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// TestMalformedHeadsAreCounted sends what net/http rejects before any handler sees it.
func TestMalformedHeadsAreCounted(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	send := func(text string, isAnswer func(string) bool) {
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.main, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if isAnswer != nil {
			if answer, err := io.ReadAll(conn); !isAnswer(string(answer)) {
				t.Errorf("%.40q: the answer is %q, %v", text, answer, err)
			}
		}
	}
	refused := func(answer string) bool {
		return strings.HasPrefix(answer, "HTTP/1.1 4") || strings.HasPrefix(answer, "HTTP/1.1 505")
	}
	send("GET /livez HTTP/1.1\r\nHos", nil) // the client went away: no request was refused
	for i, head := range []string{"GET /livez and more HTTP/1.1\r\nHost: localhost", "GET /mcp HTTP/1.1\r\nBad Header: x\r\nHost: localhost", "GET /mcp HTTP/9.1\r\nHost: localhost"} {
		send(head+"\r\n\r\n", refused)
		wantSample(t, p, `outrigger_http_refused_total{code="INVALID_ENVELOPE",edge="other"} `+strconv.Itoa(i+1))
	}
	send("GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n\r\n", refused)
	wantSample(t, p, `outrigger_limit_refused_total{limit="max_header_bytes"} 1`, `outrigger_http_refused_total{code="INVALID_ENVELOPE",edge="other"} 3`)
	// An HTTP/2 client with a wrong preface would take an answer of HTTP/1 for a frame.
	send("INVALID CONNECTION PREFACE\r\n\r\n", func(answer string) bool { return answer == "" })
	wantSample(t, p, `outrigger_http_refused_total{code="INVALID_ENVELOPE",edge="other"} 4`)
}
