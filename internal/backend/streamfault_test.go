// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// held sends one message, then nothing until its context ends or it is let go. A
// request that says something is answered with an empty stream, and not told of.
func held(tb testing.TB) (p *remote, left <-chan time.Duration, letGo chan<- struct{}, over <-chan error) {
	tb.Helper()
	begun, release, ended := make(chan time.Duration, 1), make(chan struct{}), make(chan error, 1)
	return serveStream(tb, func(ctx context.Context, req *streamRequest, out *streamSender) error {
		if len(*req.Msg) > 0 {
			return nil
		}
		remaining := time.Duration(-1)
		if deadline, ok := ctx.Deadline(); ok {
			remaining = time.Until(deadline)
		}
		begun <- remaining
		if err := send(out, []byte("first")); err != nil {
			return err
		}
		select {
		case <-release:
			return send(out, []byte("second"))
		case <-ctx.Done():
			ended <- ctx.Err()
			return ctx.Err()
		}
	}), begun, release, ended
}

func TestStreamCancelledInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, _, _, over := held(t)
			c := newClient(t, p.as(scheme), Options{})
			ctx, cancel := context.WithCancel(t.Context())
			var got [][]byte
			_, err := c.Stream(ctx, countProcedure, nil, nil, func(message []byte) error {
				cancel()
				return collect(&got)(message)
			})
			if e := failure(t, err); e.Kind != KindCancelled || e.Code != connect.CodeCanceled || !e.Sent || len(got) != 1 {
				t.Errorf("got %v after %d messages", err, len(got))
			}
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("the service's context ended with %v", err)
			}
			idle(t, c)
		})
	}
}

func TestStreamDeadline(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, left, _, over := held(t)
			c := newClient(t, p.as(scheme), Options{})
			// The deadline must not pass before the service has the call. So the connection is
			// made beforehand, and there is time to spare.
			ignore := func([]byte) error { return nil }
			if _, err := c.Stream(t.Context(), countProcedure, []byte("connect"), nil, ignore); err != nil {
				t.Fatal(err)
			}
			const timeout = 2 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := c.Stream(ctx, countProcedure, nil, nil, ignore)
			if e := failure(t, err); e.Kind != KindTimeout || !e.Sent {
				t.Errorf("got %v", err)
			}
			if got := testkit.Receive(t, "the start of the stream", left); got <= 0 || got > timeout {
				t.Errorf("the service had %v left of %v", got, timeout)
			}
			testkit.Receive(t, "the end of the service's context", over)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		p, left, letGo, _ := held(t)
		c := newClient(t, p.as("grpc"), Options{})
		close(letGo)
		if _, err := c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got != -1 {
			t.Errorf("the service has a deadline in %v", got)
		}
	})
}

// Silence is no fault: a stream outlives the time after which unused connections
// are closed. That this time has passed shows on another client's connection.
func TestSilentStreamIsKept(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, _, letGo, _ := held(t)
			o := Options{IdleTimeout: 20 * time.Millisecond}
			c := newClient(t, p.as(scheme), o)
			var got [][]byte
			_, err := c.Stream(t.Context(), countProcedure, nil, nil, func(message []byte) error {
				if len(got) == 0 {
					awaitIdleTimeout(t, o)
					close(letGo)
				}
				return collect(&got)(message)
			})
			if err != nil || len(got) != 2 || string(got[1]) != "second" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A peer may take longer for its first bytes than unused connections are kept.
func TestIdleTimeoutDuringTheGreeting(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, _, letGo, _ := held(t)
			close(letGo)
			o := Options{IdleTimeout: 20 * time.Millisecond}
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &lateConn{Conn: nc, wait: sync.OnceFunc(func() { awaitIdleTimeout(t, Options{IdleTimeout: o.IdleTimeout}) })}, err
			}
			c := newClient(t, p.as(scheme), o)
			if _, err := c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error { return nil }); err != nil {
				t.Error(err)
			}
			var e *Error // the service streams, so a unary call fails, and for no other reason
			if _, err := c.Call(t.Context(), countProcedure, []byte("connect"), nil); errors.As(err, &e) && e.Kind == KindUnreachable {
				t.Error(err)
			}
		})
	}
}

// lateConn reads nothing before wait returns.
type lateConn struct {
	net.Conn
	wait func()
}

func (c *lateConn) Read(p []byte) (int, error) {
	c.wait()
	return c.Conn.Read(p)
}

// awaitIdleTimeout makes a connection that is used once and waits for its end.
func awaitIdleTimeout(t *testing.T, o Options) {
	t.Helper()
	closed := make(chan struct{})
	var used atomic.Value
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	srv := &http.Server{Handler: echoMux(), ReadHeaderTimeout: time.Minute, ConnState: func(nc net.Conn, s http.ConnState) {
		switch {
		case s == http.StateIdle: // which that of the greeting of HTTP/2 never is
			used.Store(nc)
		case s == http.StateClosed && used.Load() == nc:
			close(closed)
		}
	}}
	go func() { _ = srv.Serve(lis) }()
	defer func() { _ = srv.Close() }()
	c := newClient(t, "connect+http://"+lis.Addr().String(), o)
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil {
		t.Error(err)
		return
	}
	<-closed
}

// A failure after some messages is the service's word, whole.
func TestStatusAfterMessages(t *testing.T) {
	t.Parallel()
	info := &errdetails.ErrorInfo{Reason: "STOCK_EMPTY", Domain: "shop.example"}
	p := serveStream(t, func(_ context.Context, req *streamRequest, out *streamSender) error {
		out.ResponseHeader().Set("X-Head", "start")
		out.ResponseTrailer().Set("X-Tail", "end")
		for i := range int((*req.Msg)[1]) {
			if err := send(out, counted(i)); err != nil {
				return err
			}
		}
		err := connect.NewError(connect.Code((*req.Msg)[0]), errors.New("ünïcode\nand 100%"))
		detail, detailErr := connect.NewErrorDetail(info)
		if detailErr != nil {
			return detailErr
		}
		err.AddDetail(detail)
		return err
	})
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, p.as(scheme), Options{})
			for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
				for _, n := range []int{0, 1, 7} {
					var got [][]byte
					answer, err := c.Stream(t.Context(), countProcedure, []byte{byte(code), byte(n)}, nil, collect(&got))
					e := failure(t, err)
					if e.Kind != KindStatus || e.Code != code || e.PeerCode != code.String() || e.Message != "ünïcode\nand 100%" || !e.Sent || len(got) != n {
						t.Errorf("%v after %d messages: got %+v after %d", code, n, e, len(got))
					}
					if diff := cmp.Diff([2]http.Header{{"X-Head": {"start"}}, {"X-Tail": {"end"}}}, [2]http.Header{e.Header, e.Trailer}); diff != "" {
						t.Errorf("%v: header and trailer (-want +got):\n%s", code, diff)
					}
					if answer == nil || answer.Header.Get("X-Head") != "start" || answer.Trailer != nil {
						t.Errorf("%v: answer %v", code, answer)
					}
					if len(e.Details) != 1 {
						t.Fatalf("%v: %d details", code, len(e.Details))
					}
					if detail, err := e.Details[0].UnmarshalNew(); err != nil || !proto.Equal(detail, info) {
						t.Errorf("%v: detail %v, %v", code, detail, err)
					}
				}
			}
			idle(t, c)
		})
	}
}

// Each message has the limit of an answer; all together have none.
func TestStreamMessageLimit(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	serve := func(opts ...connect.HandlerOption) *remote {
		return serveStream(t, func(_ context.Context, req *streamRequest, out *streamSender) error {
			for range 50 {
				if err := send(out, make([]byte, limit)); err != nil {
					return err
				}
			}
			over := map[string]int{"at": limit, "over": limit + 1, "far over": 100 * limit}[string(*req.Msg)]
			return send(out, make([]byte, over))
		}, opts...)
	}
	plain, gzipped := serve(connect.WithCompression("gzip", nil, nil)), serve()
	for _, scheme := range allSchemes() {
		for name, tc := range map[string]struct {
			peer *remote
			gzip bool
		}{"plain": {plain, false}, "gzip": {gzipped, true}} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, tc.peer.as(scheme), Options{Config: &configv1.Backend{MaxReceiveBytes: new(int64(limit))}, MaxHeaderBytes: 4096, Gzip: tc.gzip})
				for _, in := range []string{"at", "over", "far over"} {
					n := 0
					_, err := c.Stream(t.Context(), countProcedure, []byte(in), nil, func([]byte) error { n++; return nil })
					switch {
					case in == "at" && (err != nil || n != 51):
						t.Errorf("%s: %d messages, %v", in, n, err)
					case in != "at":
						if e := failure(t, err); e.Kind != KindTooLarge || e.Code != connect.CodeResourceExhausted || !e.Sent || n != 50 {
							t.Errorf("%s: %d messages, %v", in, n, err)
						}
					}
				}
				idle(t, c)
			})
		}
	}
}

// A frame is not read to its end to find that it is too large, nor is a small
// one inflated to its end, nor do trailers grow without bound.
func TestStreamBombs(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	for range 8 {
		_, _ = zw.Write(make([]byte, 1<<20))
	}
	_ = zw.Close()
	frame := func(flags byte, n int) []byte {
		return []byte{flags, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	}
	contentTypes := map[string]string{"grpc": "application/grpc", "grpcweb+http": "application/grpc-web+proto", "connect+http": "application/connect+proto"}
	for name, tc := range map[string]struct {
		body    []byte
		endless bool
		schemes []string
	}{
		"4 GiB":               {frame(0, 1<<32-1), true, allSchemes()},
		"4 GiB, compressed":   {frame(1, 1<<32-1), true, allSchemes()},
		"gzip":                {append(frame(1, zipped.Len()), zipped.Bytes()...), false, allSchemes()},
		"gRPC-Web's trailers": {frame(0x80, 1<<20), true, []string{"grpcweb+http"}},
		"Connect's end":       {frame(2, 1<<20), true, []string{"connect+http"}},
	} {
		for _, scheme := range tc.schemes {
			t.Run(name+", "+scheme, func(t *testing.T) {
				t.Parallel()
				p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", contentTypes[scheme])
					for _, h := range []string{"Grpc-Encoding", "Connect-Content-Encoding"} {
						w.Header().Set(h, "gzip")
					}
					_, err := w.Write(append(append(frame(0, 5), "first"...), tc.body...))
					for chunk := make([]byte, 1<<16); tc.endless && err == nil; {
						_, err = w.Write(chunk)
					}
				}), clearProtocols(true, true))
				c := newClient(t, p.as(scheme), Options{Config: &configv1.Backend{MaxReceiveBytes: new(int64(1 << 20))}, MaxHeaderBytes: 1 << 16})
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
				defer cancel()
				var got [][]byte
				_, err := c.Stream(ctx, countProcedure, nil, nil, collect(&got))
				if e := failure(t, err); e.Kind != KindTooLarge || len(got) != 1 {
					t.Errorf("got %v after %d messages", err, len(got))
				}
				idle(t, c)
			})
		}
	}
}

// A peer that dies in the middle of a stream.
func TestKilledPeer(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: clearProtocols(true, true)}
			srv.Handler = streamMux(func(ctx context.Context, _ *streamRequest, out *streamSender) error {
				err := send(out, []byte("first"))
				<-ctx.Done()
				return err
			})
			done := make(chan struct{})
			go func() { defer close(done); _ = srv.Serve(lis) }()
			c := newClient(t, scheme+"://"+lis.Addr().String(), Options{})
			n := 0
			answer, err := c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error {
				n++
				return srv.Close() // every connection breaks off
			})
			if e := failure(t, err); e.Kind != KindTransport || !e.Sent || e.Code != connect.CodeUnavailable || n != 1 || answer == nil {
				t.Errorf("got %v, %v after %d messages", answer, err, n)
			}
			<-done
			idle(t, c)
			_, err = c.Stream(t.Context(), countProcedure, nil, nil, nil)
			if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
				t.Errorf("the next stream: got %v", err)
			}
		})
	}
}

// The client's own end is a stream's end too.
func TestCloseDuringAStream(t *testing.T) {
	t.Parallel()
	for _, scheme := range append(allSchemes(), "http") {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, _, _, _ := held(t)
			c := newClient(t, p.as(scheme), Options{})
			_, err := c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error { return c.Close() })
			if e := failure(t, err); e.Kind != KindTransport || !e.Sent {
				t.Errorf("got %v", err)
			}
			_, err = c.Stream(t.Context(), countProcedure, nil, nil, nil)
			if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
				t.Errorf("after the close: got %v", err)
			}
		})
	}
}

// What a stream of a server can be that is none, with how it counts.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	const first = "\x00\x00\x00\x00\x05first"
	answer := func(status int, contentType, body string) func(testing.TB) *remote {
		return func(tb testing.TB) *remote {
			return servePeer(tb, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			}), clearProtocols(true, true))
		}
	}
	framed := func(react func(fr *http2.Framer, stream uint32) bool) func(testing.TB) *remote {
		return func(tb testing.TB) *remote {
			return h2peer(tb, func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool { return react(fr, stream) })
		}
	}
	began := func(fr *http2.Framer, stream uint32) bool {
		return sendHeaders(fr, stream, false, ":status", "200", "content-type", "application/grpc") &&
			fr.WriteData(stream, false, []byte(first)) == nil
	}
	const web, conn = "application/grpc-web+proto", "application/connect+proto"
	for _, tc := range []struct {
		name, scheme string
		peer         func(testing.TB) *remote
		want         Kind
		messages     int
		unsent       bool
		answered     bool
	}{
		{name: "no listener", scheme: "grpc", want: KindUnreachable, unsent: true, peer: func(tb testing.TB) *remote { return &remote{url: "http://" + testkit.Dead(tb)} }},
		{name: "every stream refused", scheme: "grpc", want: KindUnreachable, unsent: true, peer: framed(func(fr *http2.Framer, s uint32) bool {
			return fr.WriteRSTStream(s, http2.ErrCodeRefusedStream) == nil
		})},
		{name: "closes before the answer", scheme: "grpc", want: KindTransport, peer: framed(func(*http2.Framer, uint32) bool { return false })},
		{name: "closes in the stream", scheme: "grpc", want: KindTransport, messages: 1, answered: true, peer: framed(func(fr *http2.Framer, s uint32) bool { return began(fr, s) && false })},
		{name: "resets in the stream", scheme: "grpc", want: KindTransport, messages: 1, answered: true, peer: framed(func(fr *http2.Framer, s uint32) bool {
			return began(fr, s) && fr.WriteRSTStream(s, http2.ErrCodeInternal) == nil
		})},
		{name: "closes in a chunk", scheme: "connect+http", want: KindTransport, messages: 1, answered: true, peer: func(tb testing.TB) *remote {
			return rawPeer(tb, text("HTTP/1.1 200 OK\r\nContent-Type: "+conn+"\r\nTransfer-Encoding: chunked\r\n\r\na\r\n"+first+"\r\n9\r\nab"))
		}},
		{name: "502 of a proxy", scheme: "grpc", want: KindTransport, peer: answer(502, "text/html", "<html>")},
		{name: "no status, gRPC", scheme: "grpc", want: KindGarbage, messages: 1, answered: true, peer: answer(200, "application/grpc", first)},
		{name: "no status, gRPC-Web", scheme: "grpcweb+http", want: KindGarbage, messages: 1, answered: true, peer: answer(200, web, first)},
		{name: "no end, Connect", scheme: "connect+http", want: KindGarbage, messages: 1, answered: true, peer: answer(200, conn, first)},
		{name: "half a frame", scheme: "connect+http", want: KindGarbage, messages: 1, answered: true, peer: answer(200, conn, first+"\x00\x00\x00\x00\x09abc")},
		{name: "half a prefix", scheme: "grpcweb+http", want: KindGarbage, messages: 1, answered: true, peer: answer(200, web, first+"\x00\x00\x00")},
		{name: "unknown flags", scheme: "grpc", want: KindGarbage, messages: 1, answered: true, peer: answer(200, "application/grpc", first+"\x40\x00\x00\x00\x00")},
		{name: "end that is no JSON", scheme: "connect+http", want: KindGarbage, messages: 1, answered: true, peer: answer(200, conn, first+"\x02\x00\x00\x00\x01x")},
		{name: "more after the end", scheme: "connect+http", want: KindGarbage, messages: 1, answered: true, peer: answer(200, conn, first+"\x02\x00\x00\x00\x02{}"+first)},
		{name: "broken gzip", scheme: "grpc", want: KindGarbage, messages: 1, answered: true, peer: answer(200, "application/grpc", first+"\x01\x00\x00\x00\x01x")},
		{name: "the content type of a unary answer", scheme: "connect+http", want: KindGarbage, answered: true, peer: answer(200, "application/proto", "x")},
		{name: "web page", scheme: "grpc", want: KindForeign, answered: true, peer: answer(200, "text/html", "<html>")},
		{name: "500 without an answer", scheme: "connect+http", want: KindForeign, peer: answer(500, "text/plain", "oops")},
		{name: "404", scheme: "connect+http", want: KindStatus, peer: answer(404, "text/plain", "404 page not found")},
		{name: "401", scheme: "grpcweb+http", want: KindStatus, peer: answer(401, "text/plain", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, tc.peer(t).as(tc.scheme), Options{})
			var got [][]byte
			answer, err := c.Stream(t.Context(), countProcedure, []byte("request"), nil, collect(&got))
			e := failure(t, err)
			if e.Kind != tc.want || e.Sent == tc.unsent || len(got) != tc.messages || (answer != nil) != tc.answered {
				t.Errorf("got %v, sent %v, %d messages, answer %v; want %v, sent %v, %d: %v", e.Kind, e.Sent, len(got), answer, tc.want, !tc.unsent, tc.messages, err)
			}
			if e.Code < connect.CodeCanceled || e.Code > connect.CodeUnauthenticated {
				t.Errorf("code %d is none of the sixteen", e.Code)
			}
			if tc.name == "404" && (e.Code != connect.CodeUnimplemented || !strings.Contains(e.Message, "404")) {
				t.Errorf("got %v", err)
			}
			idle(t, c)
		})
	}
}

// A stream that the peer turned away unprocessed is asked for again.
func TestUnprocessedStreamIsRepeated(t *testing.T) {
	t.Parallel()
	p := h2peer(t, func(fr *http2.Framer, _ net.Conn, stream uint32, n int) bool {
		if n == 1 {
			return fr.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
		}
		return answerGRPC(fr, stream, []byte("second"), "0")
	})
	c := newClient(t, p.as("grpc"), Options{})
	var got [][]byte
	if _, err := c.Stream(t.Context(), countProcedure, []byte("request"), nil, collect(&got)); err != nil || len(got) != 1 || string(got[0]) != "second" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// A backend that was replaced by one of another protocol is looked at again.
func TestStreamFindsAReplacedBackend(t *testing.T) {
	t.Parallel()
	var protocol atomic.Value
	protocol.Store(ProtocolGRPC)
	mux := streamMux(count)
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		only(protocol.Load().(Protocol), mux).ServeHTTP(w, r)
	}), clearProtocols(true, true))
	c := newClient(t, p.as("http"), Options{})
	ignore := func([]byte) error { return nil }
	if _, err := c.Stream(t.Context(), countProcedure, counted(3), nil, ignore); err != nil {
		t.Fatal(err)
	}
	protocol.Store(ProtocolConnect)
	_, err := c.Stream(t.Context(), countProcedure, counted(3), nil, ignore)
	if e := failure(t, err); e.Kind != KindForeign {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Stream(t.Context(), countProcedure, counted(3), nil, ignore); err != nil {
		t.Fatal(err)
	}
}
