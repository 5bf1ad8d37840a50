// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// largeCall asks for an answer of 1.5 MB.
func largeCall() string {
	return `{"jsonrpc":"2.0","id":"l","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":"` + strings.Repeat("A", 1_500_000) + `"}}}`
}

// askLarge sends largeCall on a connection with a small window.
func askLarge(t *testing.T, addr string) net.Conn {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, failed)
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := largeCall()
	if _, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s", addr, jsonType, len(body), body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestUnreadAnswersDoNotStopOthers: fifty unread answers, with little
// memory. Callers from elsewhere notice nothing.
func TestUnreadAnswersDoNotStopOthers(t *testing.T) {
	t.Parallel()
	server := sidecar.ServeReady(t, binary, "--demo", "--memory-limit", "96MiB")
	elsewhere := &http.Client{Timeout: slack, Transport: &http.Transport{DialContext: (&net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)},
	}).DialContext}}
	defer elsewhere.CloseIdleConnections()
	for range 50 {
		// One after the other: together they would need more than there is to be
		// answered at all.
		if _, err := askLarge(t, server.Addr()).Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range 80 {
		<-ticker.C
		if status, err := postedBy(t.Context(), elsewhere, server.URL("/rpc")); err != nil || status != http.StatusOK {
			t.Fatalf("a caller from elsewhere: %d, %v", status, err)
		}
	}
}

func postedBy(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(rpcCall))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// TestAConnectionWithoutProgressIsClosed, and one that is read slowly is not.
func TestAConnectionWithoutProgressIsClosed(t *testing.T) {
	t.Parallel()
	server := sidecar.ServeReady(t, binary, "--demo", "--write-timeout", "2s")
	stuck := askLarge(t, server.Addr())
	slow := bufio.NewReaderSize(askLarge(t, server.Addr()), 4096)
	resp, err := http.ReadResponse(slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	read := int64(0)
	for err == nil {
		<-ticker.C
		var n int64
		n, err = io.CopyN(io.Discard, resp.Body, 64<<10)
		read += n
	}
	if !errors.Is(err, io.EOF) || read != resp.ContentLength {
		t.Errorf("a slow reader gets %d of %d bytes: %v", read, resp.ContentLength, err)
	}
	if err := stuck.SetReadDeadline(time.Now().Add(slack)); err != nil {
		t.Fatal(err)
	}
	var late net.Error
	if n, err := io.Copy(io.Discard, stuck); n > 1_500_000 || err == nil || errors.As(err, &late) && late.Timeout() {
		t.Errorf("one who reads nothing has %d bytes: %v", n, err)
	}
}

// TestAStreamWithoutProgressIsReset: the peer holds back its streams and not their
// connection. Large answers are reset, small ones too, and others are answered.
func TestAStreamWithoutProgressIsReset(t *testing.T) {
	t.Parallel()
	server := sidecar.ServeReady(t, binary, "--demo", "--write-timeout", "1s")
	at := listener{name: "main", addr: server.Addr()}
	c := dialH2(t, at)
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"an answer": "/rpc", "a notice": "/nothing"} {
		id := c.open(t, false, head(at, "POST", path, "content-type", "application/json")...)
		if err := c.framer.WriteData(id, true, []byte(rpcCall)); err != nil {
			t.Fatal(err)
		}
		s, err := c.await(id, true)
		if err != nil || s.reset == nil || c.goAway {
			t.Errorf("%s that is held back: %+v, %v", name, s, err)
		}
	}
	id := c.open(t, false, head(at, "POST", "/rpc", "content-type", "application/json")...)
	if err := errors.Join(c.framer.WriteWindowUpdate(id, 1<<20), c.framer.WriteData(id, true, []byte(rpcCall))); err != nil {
		t.Fatal(err)
	}
	if s, err := c.await(id, false); err != nil || s.status != "200" || c.goAway {
		t.Errorf("the next one: %+v, %v", s, err)
	}
}

// TestSessionsOfOneCallerDoNotEndAnothers opens more sessions than there may be.
func TestSessionsOfOneCallerDoNotEndAnothers(t *testing.T) {
	t.Parallel()
	const most = 200
	server := sidecar.ServeReady(t, binary, "--demo", "--max-sessions", fmt.Sprint(most))
	from := func(ip string) *http.Client {
		return &http.Client{Timeout: slack, Transport: &http.Transport{DialContext: (&net.Dialer{
			LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)},
		}).DialContext}}
	}
	victim, greedy := from("127.0.0.2"), from("127.0.0.1")
	defer victim.CloseIdleConnections()
	defer greedy.CloseIdleConnections()
	post := func(client *http.Client, session, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL("/mcp"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	const open = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	id := post(victim, "", open).Header.Get("Mcp-Session-Id")
	for i := range most + most/20 {
		if resp := post(greedy, "", open); resp.StatusCode != http.StatusOK {
			t.Fatalf("session %d: %s", i, resp.Status)
		}
	}
	if resp := post(victim, id, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); id == "" || resp.StatusCode != http.StatusOK {
		t.Errorf("the session of another caller: %s", resp.Status)
	}
}
