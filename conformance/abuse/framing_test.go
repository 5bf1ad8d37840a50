// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// ping is a message for /rpc, of 54 bytes.
const ping = `{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}`

// TestFraming sends requests on whose end two parsers could disagree. smuggled
// is where a second parser would see the next request: it is never answered as
// one.
func TestFraming(t *testing.T) {
	t.Parallel()
	const (
		start    = "POST /rpc HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
		smuggled = "GET /smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n"
	)
	rows := []struct {
		name, text string
		// The answers, and whether the connection ends after them.
		want  []int
		stays bool
	}{
		{name: "one length", text: start + "Content-Length: 54\r\n\r\n" + ping, want: []int{200}, stays: true},
		{name: "equal lengths", text: start + "Content-Length: 54\r\nContent-Length: 54\r\n\r\n" + ping, want: []int{200}, stays: true},
		{name: "differing lengths", text: start + "Content-Length: 54\r\nContent-Length: 0\r\n\r\n" + smuggled, want: []int{400}},
		{name: "differing lengths in one line", text: start + "Content-Length: 54, 0\r\n\r\n" + smuggled, want: []int{400}},
		{name: "a length with a sign", text: start + "Content-Length: +54\r\n\r\n" + smuggled, want: []int{400}},
		{name: "a length below zero", text: start + "Content-Length: -1\r\n\r\n" + smuggled, want: []int{400}},
		{name: "a hexadecimal length", text: start + "Content-Length: 0x36\r\n\r\n" + smuggled, want: []int{400}},
		{name: "chunks", text: start + "Transfer-Encoding: chunked\r\n\r\n36\r\n" + ping + "\r\n0\r\n\r\n", want: []int{200}, stays: true},
		// The chunks count: with the length, the ping would be cut short.
		{name: "chunks and a length", text: start + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n36\r\n" + ping + "\r\n0\r\n\r\n", want: []int{200}, stays: true},
		{name: "chunks twice", text: start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, want: []int{501}},
		{name: "chunks and more", text: start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggled, want: []int{501}},
		{name: "chunks under another name", text: start + "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + smuggled, want: []int{501}},
		{name: "a space before the colon", text: start + "Content-Length : 54\r\n\r\n" + smuggled, want: []int{400}},
		{name: "a broken chunk", text: start + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + smuggled, want: []int{400}},
		{name: "chunks on HTTP/1.0", text: strings.Replace(start, "1.1", "1.0", 1) + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled, want: []int{400}},
		{name: "two hosts", text: start + "Host: evil.example\r\nContent-Length: 54\r\n\r\n" + ping, want: []int{400}},
		{name: "no host", text: "POST /rpc HTTP/1.1\r\nContent-Length: 54\r\n\r\n" + ping, want: []int{400}},
		{name: "another host in the target", text: "POST http://evil.example/rpc HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n", want: []int{403}, stays: true},
		{name: "an expectation that is not known", text: start + "Expect: 200-ok\r\nContent-Length: 54\r\n\r\n" + ping, want: []int{417}},
		{name: "two requests at once", text: start + "Content-Length: 54\r\n\r\n" + ping + start + "Content-Length: 54\r\n\r\n" + ping, want: []int{200, 200}, stays: true},
	}
	at := listeners(t)[0]
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			conn := at.dial(t, "http/1.1")
			if _, err := io.WriteString(conn, strings.ReplaceAll(row.text, "HOST", at.addr)); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			for _, want := range row.want {
				if got := status(in); got != want {
					t.Fatalf("%d, want %d", got, want)
				}
			}
			if row.stays {
				if _, err := io.WriteString(conn, "GET /nothing HTTP/1.1\r\nHost: "+at.addr+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if got := status(in); got != 404 {
					t.Errorf("the next request gets %d", got)
				}
				return
			}
			rest, err := io.ReadAll(in)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the connection stays")
			}
			if strings.Contains(string(rest), "HTTP/1.") {
				t.Errorf("something else was answered: %s", rest)
			}
		})
	}
}

// status reads one answer to its end.
func status(in *bufio.Reader) int {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestFramingOnHTTP2 sends requests that are wrong in themselves: they are refused,
// and the connection serves others.
func TestFramingOnHTTP2(t *testing.T) {
	t.Parallel()
	for _, at := range listeners(t) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			c := dialH2(t, at)
			path := at.paths[0]
			for _, row := range []struct {
				name   string
				fields []string
				// status, or reset where there is no answer
				status string
				reset  http2.ErrCode
			}{
				{name: "another host", fields: head(at, "POST", path, "host", "evil.example"), status: "400"},
				{name: "two hosts", fields: head(at, "POST", path, "host", at.addr, "host", at.addr), status: "400"},
				{name: "ours in the header alone", fields: []string{":method", "POST", ":scheme", "https", ":authority", "evil.example", ":path", path, "host", at.addr}, status: "400"},
				{name: "OPTIONS * of a foreign host", fields: []string{":method", "OPTIONS", ":scheme", "https", ":authority", "evil.example", ":path", "*"}, status: "403"},
				{name: "OPTIONS * of a foreign page", fields: head(at, "OPTIONS", "*", "origin", "http://evil.example"), status: "403"},
				{name: "GET *", fields: head(at, "GET", "*"), status: "400"},
				{name: "a connection header", fields: head(at, "POST", path, "connection", "close"), reset: http2.ErrCodeProtocol},
				{name: "chunks", fields: head(at, "POST", path, "transfer-encoding", "chunked"), reset: http2.ErrCodeProtocol},
				{name: "TE other than trailers", fields: head(at, "POST", path, "te", "gzip"), reset: http2.ErrCodeProtocol},
				{name: "two lengths", fields: head(at, "POST", path, "content-length", "3", "content-length", "4"), reset: http2.ErrCodeProtocol},
				{name: "a user in the authority", fields: []string{":method", "POST", ":scheme", "https", ":authority", "user@" + at.addr, ":path", path}, reset: http2.ErrCodeProtocol},
				{name: "capitals in a name", fields: head(at, "POST", path, "X-Upper", "1"), reset: http2.ErrCodeProtocol},
				{name: "no path", fields: []string{":method", "POST", ":scheme", "https", ":authority", at.addr}, reset: http2.ErrCodeProtocol},
			} {
				s, err := c.await(c.open(t, false, row.fields...), true)
				if err != nil {
					t.Fatalf("%s: %v", row.name, err)
				}
				if s.status != row.status || *s.reset != row.reset {
					t.Errorf("%s: status %q and %v, want %q and %v", row.name, s.status, *s.reset, row.status, row.reset)
				}
			}
			if s, err := c.await(c.open(t, true, head(at, "OPTIONS", "*", "host", at.addr)...), false); err != nil || s.status != "204" || c.goAway {
				t.Errorf("the connection does not go on: %q, %v, GOAWAY %v", s.status, err, c.goAway)
			}
		})
	}
}

// TestOptionsOfAllIsGuarded on HTTP/1: net/http would answer it before anybody
// looks.
func TestOptionsOfAllIsGuarded(t *testing.T) {
	t.Parallel()
	for _, at := range listeners(t) {
		for _, row := range []struct {
			head string
			want int
		}{
			{"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
			{"OPTIONS * HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\n\r\n", 403},
			{"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n", 204},
			{"OPTIONS * HTTP/1.1\r\nHost: HOST\r\nContent-Length: 200000\r\n\r\n", 204},
		} {
			conn := at.dial(t, "http/1.1")
			if _, err := io.WriteString(conn, strings.ReplaceAll(row.head, "HOST", at.addr)); err != nil {
				t.Fatal(err)
			}
			if got := status(bufio.NewReader(conn)); got != row.want {
				t.Errorf("%s, %q: %d, want %d", at.name, row.head, got, row.want)
			}
		}
	}
}

// TestAnOriginOfTheOtherScheme is foreign, and the answer and the log say what to
// do about it.
func TestAnOriginOfTheOtherScheme(t *testing.T) {
	t.Parallel()
	for _, at := range listeners(t) {
		own, other := "http://"+at.addr, "https://"+at.addr
		if at.tls != nil {
			own, other = other, own
		}
		for origin, foreign := range map[string]bool{own: false, other: true} {
			conn := at.dial(t, "http/1.1")
			if _, err := io.WriteString(conn, "GET /nothing HTTP/1.1\r\nHost: "+at.addr+"\r\nOrigin: "+origin+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if (resp.StatusCode == 403) != foreign || foreign && !strings.Contains(string(body), "--allowed-origins") {
				t.Errorf("%s, %s: %d %s", at.name, origin, resp.StatusCode, body)
			}
		}
	}
}
