// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	const ok200 = "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\n"
	handler := func(h http.HandlerFunc) func(testing.TB) *remote {
		return func(tb testing.TB) *remote { return servePeer(tb, h, clearProtocols(true, true)) }
	}
	raw := func(talk func(net.Conn)) func(testing.TB) *remote {
		return func(tb testing.TB) *remote { return rawPeer(tb, talk) }
	}
	framed := func(react func(fr *http2.Framer, nc net.Conn, stream uint32, n int) bool) func(testing.TB) *remote {
		return func(tb testing.TB) *remote { return h2peer(tb, react) }
	}
	status := func(code int, contentType, body string) func(testing.TB) *remote {
		return handler(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
	nowhere := func(tb testing.TB) *remote { return &remote{url: "http://" + testkit.Dead(tb)} }
	// A call that has to be sent before its time is over needs time to connect, which may
	// take long where many tests run at once.
	const enough = 2 * time.Second
	noSocket := func(tb testing.TB) *remote { return &remote{url: "unix://" + tb.TempDir() + "/none"} }

	for _, tc := range []struct {
		name    string
		scheme  string
		peer    func(testing.TB) *remote
		timeout time.Duration
		want    Kind
		unsent  bool
		either  bool   // the peer's first bytes may come before or after the request left
		text    string // part of the error's text
	}{
		// Not reached.
		{name: "refused, gRPC", scheme: "grpc", peer: nowhere, want: KindUnreachable, unsent: true, text: "connection refused"},
		{name: "refused, Connect", scheme: "connect+http", peer: nowhere, want: KindUnreachable, unsent: true, text: "connection refused"},
		{name: "refused, probed", scheme: "http", peer: nowhere, want: KindUnreachable, unsent: true, text: "connection refused"},
		{name: "no socket", scheme: "grpc+unix", peer: noSocket, want: KindUnreachable, unsent: true, text: "no such file"},
		{name: "no socket, probed", scheme: "unix", peer: noSocket, want: KindUnreachable, unsent: true, text: "no such file"},
		{name: "closes at once, gRPC", scheme: "grpc", peer: raw(func(nc net.Conn) { _ = nc.Close() }), want: KindUnreachable, unsent: true, text: "closed the connection"},
		{name: "resets at once, gRPC", scheme: "grpc", peer: raw(resetConn), want: KindUnreachable, unsent: true},
		{name: "TLS to a plain server", scheme: "grpcs", peer: status(200, "text/html", "hi"), want: KindUnreachable, unsent: true},
		{
			name: "GOAWAY excludes every stream", scheme: "grpc", want: KindUnreachable, unsent: true,
			peer: framed(func(fr *http2.Framer, nc net.Conn, _ uint32, _ int) bool {
				if fr.WriteGoAway(0, http2.ErrCodeNo, nil) != nil {
					return false
				}
				_, _ = io.Copy(io.Discard, nc) // the client closes
				return false
			}),
		},
		{
			name: "REFUSED_STREAM every time", scheme: "grpc", want: KindUnreachable, unsent: true,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return fr.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
			}),
		},

		// Our clock.
		{
			name: "never answers, gRPC", scheme: "grpc", timeout: enough, want: KindTimeout,
			peer: framed(func(*http2.Framer, net.Conn, uint32, int) bool { return true }),
		},
		{name: "never says a word, gRPC", scheme: "grpc", timeout: 50 * time.Millisecond, want: KindTimeout, unsent: true, peer: raw(func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })},
		{name: "never answers, Connect", scheme: "connect+http", timeout: enough, want: KindTimeout, peer: raw(http1(func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) }))},
		{name: "never answers, probed", scheme: "http", timeout: 50 * time.Millisecond, want: KindTimeout, unsent: true, peer: raw(func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })},
		{
			name: "stops in mid-answer", scheme: "connect+http", timeout: enough, want: KindTimeout,
			peer: raw(func(nc net.Conn) {
				drain(nc)
				_, _ = io.WriteString(nc, ok200+"Content-Length: 10\r\n\r\nabc")
				_, _ = io.Copy(io.Discard, nc)
			}),
		},

		// Sent, outcome unknown.
		{name: "closes, gRPC", scheme: "grpc", want: KindTransport, peer: framed(func(*http2.Framer, net.Conn, uint32, int) bool { return false })},
		{name: "resets, gRPC", scheme: "grpc", want: KindTransport, peer: framed(func(_ *http2.Framer, nc net.Conn, _ uint32, _ int) bool {
			resetConn(nc)
			return false
		})},
		{name: "closes, Connect", scheme: "connect+http", want: KindTransport, peer: raw(http1(func(nc net.Conn) { drain(nc); _ = nc.Close() }))},
		{name: "resets before the answer", scheme: "connect+http", want: KindTransport, peer: raw(http1(func(nc net.Conn) { drain(nc); resetConn(nc) }))},
		{name: "resets in mid-answer", scheme: "connect+http", want: KindTransport, peer: raw(func(nc net.Conn) {
			drain(nc)
			_, _ = io.WriteString(nc, ok200+"Content-Length: 10\r\n\r\nabc")
			resetConn(nc)
		})},
		{name: "closes in mid-answer", scheme: "connect+http", want: KindTransport, peer: raw(text(ok200 + "Content-Length: 10\r\n\r\nabc"))},
		{name: "closes in mid-chunk", scheme: "connect+http", want: KindTransport, peer: raw(text(ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nab"))},
		{
			name: "connection lost after the headers, gRPC", scheme: "grpc", want: KindTransport,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				sendHeaders(fr, stream, false, ":status", "200", "content-type", "application/grpc")
				return false
			}),
		},
		{
			name: "stream reset before the answer", scheme: "grpc", want: KindTransport,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return fr.WriteRSTStream(stream, http2.ErrCodeInternal) == nil
			}),
		},
		{
			name: "stream reset with PROTOCOL_ERROR", scheme: "grpc", want: KindTransport,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return fr.WriteRSTStream(stream, http2.ErrCodeProtocol) == nil
			}),
		},
		{
			name: "stream cancelled by the peer", scheme: "grpc", timeout: time.Minute, want: KindTransport,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return fr.WriteRSTStream(stream, http2.ErrCodeCancel) == nil
			}),
		},
		{
			name: "stream reset with ENHANCE_YOUR_CALM in mid-answer", scheme: "grpc", want: KindTransport,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return sendHeaders(fr, stream, false, ":status", "200", "content-type", "application/grpc") &&
					fr.WriteRSTStream(stream, http2.ErrCodeEnhanceYourCalm) == nil
			}),
		},
		{
			name: "handler aborts, gRPC", scheme: "grpc", want: KindTransport,
			peer: handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		},
		{name: "502 of a proxy", scheme: "grpc", want: KindTransport, peer: status(502, "text/html", "<html>")},
		{name: "503 of a proxy", scheme: "connect+http", want: KindUnreachable, peer: status(503, "text/html", "<html>")},
		{name: "408, Connect", scheme: "connect+http", want: KindTransport, text: "in time", peer: status(408, "text/plain", "")},
		{
			name: "400 of a server that hangs up, Connect", scheme: "connect+http", want: KindTransport, text: "could not read",
			peer: raw(text("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request")),
		},
		{
			name: "400 of a server that hangs up, gRPC-Web", scheme: "grpcweb+http", want: KindTransport, text: "could not read",
			peer: raw(text("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request")),
		},

		{name: "413 of a proxy", scheme: "connect+http", want: KindRequestTooLarge, text: "size", peer: status(413, "text/html", "<html>")},
		{name: "431 of a proxy", scheme: "grpcweb+http", want: KindRequestTooLarge, text: "headers", peer: status(431, "text/html", "<html>")},
		{name: "413 of a gateway in JSON", scheme: "connect+http", want: KindRequestTooLarge, peer: status(413, "application/json", `{"message":"too large"}`)},
		{name: "429 of a gateway in JSON", scheme: "connect+http", want: KindUnreachable, peer: status(429, "application/json", `{"message":"slow down"}`)},

		// An HTTP server in the service's place, and garbage.
		{name: "web page, gRPC", scheme: "grpc", want: KindForeign, text: "text/html", peer: status(200, "text/html", "<html>")},
		{name: "web page, Connect", scheme: "connect+http", want: KindForeign, text: "text/html", peer: status(200, "text/html", "<html>")},
		{name: "web page, gRPC-Web", scheme: "grpcweb+http", want: KindForeign, text: "text/html", peer: status(200, "text/html", "<html>")},
		{name: "web page, probed", scheme: "http", want: KindGarbage, unsent: true, text: "text/html", peer: status(200, "text/html", "<html>")},
		{name: "JSON where Protobuf was asked for", scheme: "connect+http", want: KindGarbage, peer: status(200, "application/json", "{}")},
		{name: "415 of another protocol", scheme: "grpc", want: KindForeign, peer: func(tb testing.TB) *remote {
			return servePeer(tb, only(ProtocolConnect, echoMux()), clearProtocols(true, true))
		}},
		{name: "400 that is no answer", scheme: "connect+http", want: KindForeign, peer: status(400, "text/plain", "what?")},
		{name: "500 without an answer", scheme: "connect+http", want: KindForeign, peer: status(500, "text/plain", "oops")},
		{name: "a redirect is not followed", scheme: "connect+http", want: KindForeign, peer: handler(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		})},
		{name: "not HTTP at all", scheme: "connect+http", want: KindGarbage, unsent: true, peer: raw(text("SSH-2.0-OpenSSH_9.9\r\n"))},
		{name: "not HTTP at all, gRPC", scheme: "grpc", want: KindGarbage, unsent: true, peer: raw(text("SSH-2.0-OpenSSH_9.9\r\n"))},
		{name: "HTTP/1 only, gRPC", scheme: "grpc", want: KindGarbage, unsent: true, text: "HTTP/1", peer: func(tb testing.TB) *remote {
			return servePeer(tb, echoMux(), clearProtocols(true, false))
		}},
		{name: "half a frame", scheme: "grpc", want: KindGarbage, peer: status(200, "application/grpc", "\x00\x00\x00\x00\x09abc")},
		{name: "no status", scheme: "grpc", want: KindGarbage, peer: status(200, "application/grpc", "\x00\x00\x00\x00\x00")},
		{name: "nothing but headers", scheme: "grpc", want: KindGarbage, peer: status(200, "application/grpc", "")},
		{
			name: "two messages", scheme: "grpc", want: KindGarbage,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return sendHeaders(fr, stream, false, ":status", "200", "content-type", "application/grpc") &&
					fr.WriteData(stream, false, make([]byte, 10)) == nil &&
					sendHeaders(fr, stream, true, "grpc-status", "0")
			}),
		},
		{
			name: "status before the message", scheme: "grpc", want: KindGarbage,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return sendHeaders(fr, stream, false, ":status", "200", "content-type", "application/grpc", "grpc-status", "9") &&
					fr.WriteData(stream, true, make([]byte, 5)) == nil
			}),
		},
		{
			name: "status that is no number", scheme: "grpc", want: KindGarbage,
			peer: framed(func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return sendHeaders(fr, stream, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "fine")
			}),
		},
		{name: "unknown compression", scheme: "connect+http", want: KindGarbage, peer: handler(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "x")
		})},
		{name: "broken gzip", scheme: "connect+http", want: KindGarbage, peer: handler(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "not gzip")
		})},

		// The server in the service's place.
		{name: "404", scheme: "grpc", want: KindStatus, peer: status(404, "text/plain", "404 page not found")},
		{name: "404, Connect", scheme: "connect+http", want: KindStatus, peer: status(404, "text/plain", "404 page not found")},
		{name: "401", scheme: "connect+http", want: KindStatus, peer: status(401, "text/html", "")},
		{name: "403", scheme: "grpcweb+http", want: KindStatus, peer: status(403, "text/html", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := tc.peer(t)
			c := newClient(t, p.as(tc.scheme), Options{})
			ctx := t.Context()
			if tc.timeout > 0 {
				var cancel func()
				ctx, cancel = contextTimeout(ctx, tc.timeout)
				defer cancel()
			}
			_, err := c.Call(ctx, echoProcedure, []byte("request"), nil)
			e := failure(t, err)
			if e.Kind != tc.want || e.Sent == tc.unsent {
				t.Errorf("got %v, sent %v; want %v, sent %v: %v", e.Kind, e.Sent, tc.want, !tc.unsent, err)
			}
			if !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%q does not mention %q", err, tc.text)
			}
			if e.Code < connect.CodeCanceled || e.Code > connect.CodeUnauthenticated {
				t.Errorf("code %d is none of the sixteen", e.Code)
			}
			if e.Kind != KindStatus && e.PeerCode != "" {
				t.Errorf("peer code %q without a status", e.PeerCode)
			}
		})
	}
}

// A request that the peer turned away unprocessed is sent again on a new
// connection or stream; the caller sees nothing of it.
func TestUnprocessedIsRepeated(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(fr *http2.Framer, stream uint32) bool{
		"GOAWAY":         func(fr *http2.Framer, _ uint32) bool { return fr.WriteGoAway(0, http2.ErrCodeNo, nil) == nil },
		"REFUSED_STREAM": func(fr *http2.Framer, s uint32) bool { return fr.WriteRSTStream(s, http2.ErrCodeRefusedStream) == nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := h2peer(t, func(fr *http2.Framer, _ net.Conn, stream uint32, n int) bool {
				if n == 1 {
					return refuse(fr, stream)
				}
				return answerGRPC(fr, stream, []byte("second"), "0")
			})
			c := newClient(t, p.as("grpc"), Options{})
			got, err := c.Call(t.Context(), echoProcedure, []byte("request"), nil)
			if err != nil || string(got.Body) != "second" {
				t.Fatalf("got %v, %v", got, err)
			}
		})
	}
}

// What may have been processed is never sent twice. net/http alone would repeat
// the PROTOCOL_ERROR case.
func TestProcessedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeInternal, http2.ErrCodeCancel, http2.ErrCodeNo} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			var served atomic.Int64
			p := h2peer(t, func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				served.Add(1)
				return fr.WriteRSTStream(stream, code) == nil
			})
			c := newClient(t, p.as("grpc"), Options{})
			_, err := c.Call(t.Context(), echoProcedure, []byte("request"), nil)
			if e := failure(t, err); e.Kind != KindTransport || !e.Sent {
				t.Errorf("got %v", err)
			}
			if n := served.Load(); n != 1 {
				t.Errorf("the request was sent %d times", n)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	c := newClient(t, "grpc://"+testkit.Dead(t), Options{})
	_, err := c.Call(t.Context(), echoProcedure, nil, nil)
	e := failure(t, err)
	if op := new(net.OpError); !errors.As(e, &op) {
		t.Errorf("the cause is lost: %v", err)
	}
	if want := "backend: unreachable: cannot reach the backend: dial tcp"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want it to begin with %q", err, want)
	}
	for k := KindUnreachable; k <= KindForeign; k++ {
		if k.String() == "invalid" || newError(k, "", nil).Code == 0 {
			t.Errorf("kind %d has no name or code", k)
		}
	}
	if got := fmt.Sprint(Kind(0)); got != "invalid" {
		t.Errorf("the zero kind reads %q", got)
	}
}
