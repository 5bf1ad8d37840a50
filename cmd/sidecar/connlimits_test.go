// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
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
		testkit.Until(t, "a caller is answered", func() bool {
			status, _, _, err := s.post("/rpc", ping)
			return err == nil && status == http.StatusOK
		})
	}
}

// meetAge asks on one connection until an answer ends it.
func meetAge(t *testing.T, s *limited) {
	t.Helper()
	// On a busy machine, the first request may come when the connection is old already.
	testkit.Until(t, "an answer that is not the first says goodbye", func() bool {
		conn := dialTCP(t, s.address)
		in := bufio.NewReader(conn)
		asked := 0
		testkit.Until(t, "an answer says goodbye", func() bool {
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
		return asked > 1
	})
}

// meetCut has a call in flight for longer than its connection lasts.
func meetCut(t *testing.T, s *limited) {
	t.Helper()
	conn := dialTCP(t, s.address)
	if err := conn.SetDeadline(time.Now().Add(testkit.Limit())); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(sleeper, 1, "60s")
	_, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.address, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) { // it would be answered if it could end
		t.Errorf("it is answered, or stays open: %q, %v", got, err)
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
	testkit.Until(t, "a probe is answered", func() bool {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/livez")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}
