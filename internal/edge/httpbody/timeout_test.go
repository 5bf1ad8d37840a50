// SPDX-License-Identifier: Apache-2.0

package httpbody_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// bodyTimeout is what bodies get in these tests: a real socket has a real clock.
const bodyTimeout = 50 * time.Millisecond

// outcome is what a handler behind Timeout saw.
type outcome struct {
	err  *errmap.Error
	gone bool
}

// handler reads a body and then waits: for release, or for its context to end.
// Without a body there is nothing to wait for.
func handler(seen chan<- outcome, release <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpbody.Read(w, r, limit); err != nil {
			w.WriteHeader(err.HTTPStatus())
			seen <- outcome{err: err}
			return
		}
		var gone bool
		select {
		case <-release:
		case <-r.Context().Done():
			gone = true
		}
		w.WriteHeader(http.StatusNoContent)
		seen <- outcome{gone: gone}
	})
}

func never(*http.Request) bool { return false }

// dial opens a connection and sends the head of a request with this many bytes
// to come.
func dial(t *testing.T, url string, length int) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", length)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestASlowBodyMeetsTheTimeout(t *testing.T) {
	t.Parallel()
	seen, late := make(chan outcome, 1), make(chan struct{}, 2)
	url := mcptest.Serve(t, httpbody.Timeout(handler(seen, closed()), bodyTimeout, never, func() { late <- struct{}{} }))
	conn := dial(t, url, 100)
	if _, err := conn.Write([]byte(`{"a":`)); err != nil {
		t.Fatal(err)
	}
	got := <-seen
	if got.err == nil || got.err.Code != errmap.ParseError || !strings.Contains(got.err.Violations[0].Message, "in time") {
		t.Errorf("got %+v, want PARSE_ERROR that names the time", got)
	}
	if len(late) != 1 {
		t.Errorf("it was told %d times", len(late))
	}
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Errorf("no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// Regression: the deadline of the body stayed in place, and net/http, which
// reads on to notice a peer that goes away, took its end for one. Calls longer
// than the body's time were cancelled.
func TestTheTimeoutEndsWithTheBody(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	for version := 1; version <= 2; version++ {
		for name, body := range map[string]func() io.Reader{
			"sized":   func() io.Reader { return strings.NewReader(`{}`) },
			"chunked": func() io.Reader { return unsized{strings.NewReader(`{}`)} },
			"zipped":  func() io.Reader { return strings.NewReader(string(zipped(t, []byte(`{}`)))) },
		} {
			t.Run(fmt.Sprintf("HTTP/%d %s", version, name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					seen, release := make(chan outcome, 1), make(chan struct{})
					server := backend.NewInProcess(httpbody.Timeout(handler(seen, release), timeout, never, nil), zap.NewNop())
					defer func() { _ = server.Close() }()
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://memory", body())
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", "application/json")
					if name == "zipped" {
						req.Header.Set("Content-Encoding", "gzip")
					}
					time.AfterFunc(2*timeout, func() { close(release) })
					client := mcptest.Client(t, version)
					client.Transport.(*http.Transport).DialContext = server.Dial
					resp, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					_ = resp.Body.Close()
					if got := <-seen; got.err != nil || got.gone || resp.StatusCode != http.StatusNoContent {
						t.Errorf("got %+v and %d: the call was cut", got, resp.StatusCode)
					}
				})
			})
		}
	}
}

func TestStreamsHaveNoTimeout(t *testing.T) {
	t.Parallel()
	seen := make(chan outcome, 1)
	url := mcptest.Serve(t, httpbody.Timeout(handler(seen, closed()), bodyTimeout, func(r *http.Request) bool { return r.URL.Path == "/" }, nil))
	conn := dial(t, url, 2)
	time.AfterFunc(4*bodyTimeout, func() { _, _ = conn.Write([]byte(`{}`)) })
	if got := <-seen; got.err != nil {
		t.Errorf("got %+v", got)
	}
}

func TestAPeerThatGoesAwayEndsTheRequest(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{"in mid-body": `{`, "after the body": `{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan outcome, 1)
			url := mcptest.Serve(t, httpbody.Timeout(handler(seen, nil), time.Hour, never, nil))
			conn := dial(t, url, 2)
			if _, err := conn.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			if got := <-seen; got.gone != (sent == `{}`) || (got.err != nil) != (sent == `{`) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestATransportWithoutDeadlinesIsServed(t *testing.T) {
	t.Parallel()
	seen := make(chan outcome, 1)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
	r.Header.Set("Content-Type", "application/json")
	httpbody.Timeout(handler(seen, closed()), bodyTimeout, never, nil).ServeHTTP(httptest.NewRecorder(), r)
	if got := <-seen; got.err != nil {
		t.Errorf("got %+v", got)
	}
}
