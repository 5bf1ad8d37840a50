// SPDX-License-Identifier: Apache-2.0

package httpbody_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// exchange sends text to a server, and returns its first answer, and whether the
// connection ended by itself.
func exchange(t *testing.T, url, text string) (resp *http.Response, closed bool) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testkit.Limit())); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if resp, err = http.ReadResponse(in, nil); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if !resp.Close {
		return resp, false
	}
	_, err = io.Copy(io.Discard, in)
	var timeout net.Error
	return resp, !errors.As(err, &timeout) || !timeout.Timeout()
}

// answers says 204 without looking at the body, or what the path says.
func answers() http.Handler {
	mux := http.NewServeMux()
	for path, status := range map[string]int{"/": 204, "/401": 401, "/413": 413, "/500": 500} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/panic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(500)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/closes", func(w http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close() // as RPC libraries do before they answer
		w.WriteHeader(401)
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(401)
	})
	return mux
}

// Regression: net/http reads up to 256 KiB of a body before an answer that did not
// ask for it, and again afterwards, without a deadline. A request that announces a
// body and sends none held its connection for ever.
func TestAnAnswerDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	url := mcptest.Serve(t, httpbody.Timeout(answers(), time.Hour, func(r *http.Request) bool { return r.Header.Get("Stream") != "" }, nil))
	for name, tc := range map[string]struct {
		text   string
		status int
	}{
		"a body that does not come": {"POST /401 HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n", 401},
		"a small one":               {"POST /401 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", 401},
		"part of it":                {"POST /401 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{", 401},
		"a large one":               {"POST /413 HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n", 413},
		"chunks":                    {"POST /401 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
		"half a chunk":              {"POST /401 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx", 401},
		"waiting for 100":           {"POST /401 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", 401},
		"success":                   {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n", 204},
		"no status":                 {"GET /silent HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n", 200},
		"a stream":                  {"POST /401 HTTP/1.1\r\nHost: x\r\nStream: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
		"a body that is closed":     {"POST /closes HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n", 401},
		"HTTP/1.0":                  {"POST /401 HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}", 401},
		"HTTP/1.0 in chunks":        {"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 204},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, closed := exchange(t, url, tc.text)
			if resp.StatusCode != tc.status || !resp.Close || !closed {
				t.Errorf("%d, says close: %v, is closed: %v; want %d and a closed connection", resp.StatusCode, resp.Close, closed, tc.status)
			}
		})
	}
}

// TestACallInFlightEndsItsConnectionInADrain: a drain begins while a call runs. Its answer says Connection: close, so that the drain does not
// wait until the client has been idle for seconds.
func TestACallInFlightEndsItsConnectionInADrain(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // as package peer listens
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	sockets := &peer.Sockets{}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: httpbody.Timeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "ok")
	}), time.Hour, never, nil)}
	sockets.Add(peer.NewSocket(listener, peer.SocketOptions{Main: true, Refused: peer.NewRefused(1<<20, nil)}), server, func(err error) { t.Error(err) })
	defer sockets.Close()
	for _, drains := range []bool{false, true} {
		go func() {
			<-entered
			if drains {
				sockets.Leave()
			}
			release <- struct{}{}
		}()
		resp, closed := exchange(t, listener.Addr().String(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		if resp.StatusCode != http.StatusOK || resp.Close != drains || closed != drains {
			t.Errorf("drains: %v; %d, says close: %v, is closed: %v", drains, resp.StatusCode, resp.Close, closed)
		}
	}
}

func TestAPanicDoesNotHoldTheConnection(t *testing.T) {
	t.Parallel()
	url := mcptest.Serve(t, httpbody.Timeout(answers(), time.Hour, never, nil))
	resp, closed := exchange(t, url, "POST /panic HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
	if resp.StatusCode != 500 || !closed {
		t.Errorf("%d, is closed: %v", resp.StatusCode, closed)
	}
}

// TestARefusalKeepsAConnectionThatIsInOrder: a small body that came with the head
// of a request costs its client no connection.
func TestARefusalKeepsAConnectionThatIsInOrder(t *testing.T) {
	t.Parallel()
	url := mcptest.Serve(t, httpbody.Timeout(answers(), time.Hour, never, func() { t.Error("counted as late") }))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReader(conn)
	for _, request := range []string{
		"POST /401 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /500 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /401 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
	} {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err == nil && resp.StatusCode == http.StatusEarlyHints {
			resp, err = http.ReadResponse(in, nil)
		}
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode < 400 || resp.Close {
			t.Fatalf("%q: %d, close: %v", request, resp.StatusCode, resp.Close)
		}
	}
}

// TestAConnectionOutlivesTheEndOfARead: net/http reads on after the end of a body, and a
// deadline there would end the connection's context with all requests that follow.
func TestAConnectionOutlivesTheEndOfARead(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"a deadline after the body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			w.WriteHeader(http.StatusNoContent)
		},
		"a deadline beside the body": func(w http.ResponseWriter, r *http.Request) {
			body, read := r.Body, make(chan struct{})
			go func() { defer close(read); _, _ = io.Copy(io.Discard, body) }()
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			<-read
			w.WriteHeader(http.StatusNoContent)
		},
		"a refusal without the body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := mcptest.Serve(t, httpbody.Timeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := r.Context().Err(); err != nil {
					t.Errorf("a request's context began as %v", err)
				}
				serve(w, r)
			}), time.Hour, never, func() {}))
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
			t.Cleanup(client.CloseIdleConnections)
			for range 300 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}

// TestABodyThatIsReadElsewhere while its handler answers, as a proxy does.
func TestABodyThatIsReadElsewhere(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	url := mcptest.Serve(t, httpbody.Timeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		go func() {
			_, err := io.Copy(io.Discard, body)
			read <- err
		}()
		http.Error(w, "no", http.StatusBadGateway)
	}), time.Hour, never, func() {}))
	if resp, closed := exchange(t, url, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nx"); resp.StatusCode != http.StatusBadGateway || !closed {
		t.Errorf("%d, is closed: %v", resp.StatusCode, closed)
	}
	if err := <-read; err == nil {
		t.Error("a body that did not come was read to its end")
	}
}

// TestABodyThatIsReadAsItsHandlerReturns: the read ends, and the connection with it.
func TestABodyThatIsReadAsItsHandlerReturns(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	url := mcptest.Serve(t, httpbody.Timeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, first := r.Body, make(chan struct{})
		w.WriteHeader(http.StatusOK)
		go func() {
			_, err := io.ReadFull(body, make([]byte, 1))
			close(first)
			if err == nil {
				_, err = io.Copy(io.Discard, body)
			}
			read <- err
		}()
		<-first
	}), time.Hour, never, func() { t.Error("counted as late") }))
	for range 5 { // the read may begin after the end of the handler
		if resp, closed := exchange(t, url, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nx"); resp.StatusCode != http.StatusOK || !closed {
			t.Errorf("%d, is closed: %v", resp.StatusCode, closed)
		}
		if err := <-read; err == nil {
			t.Error("a body that did not come was read to its end")
		}
	}
}

// TestHTTP2GoesOnAfterARefusal: the answer and RST_STREAM(NO_ERROR), and the
// connection serves the next request.
func TestHTTP2GoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	conns := make(chan string, 3)
	next := answers()
	url := mcptest.Serve(t, httpbody.Timeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns <- r.RemoteAddr
		next.ServeHTTP(w, r)
	}), time.Hour, never, nil))
	client := mcptest.Client(t, 2)
	for range cap(conns) {
		body, sender := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/401", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		_ = sender.Close()
		if resp.StatusCode != 401 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	if a, b, c := <-conns, <-conns, <-conns; a != b || b != c {
		t.Errorf("connections %s, %s, %s: a refusal ended one that others share", a, b, c)
	}
}
