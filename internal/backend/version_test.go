// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestConnectOverEitherHTTP has servers of a named protocol that offer one version of HTTP
// or both: which it is, is found out once. A greeting of HTTP/2 that a server hangs up on or
// ignores costs no more than its time.
func TestConnectOverEitherHTTP(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		peer  func(testing.TB) *remote
		lacks bool          // HTTP/2
		most  time.Duration // of an attempt
	}{
		"both":     {func(tb testing.TB) *remote { return servePeer(tb, echoMux(), clearProtocols(true, true)) }, false, testkit.Limit()},
		"HTTP/1.1": {func(tb testing.TB) *remote { return servePeer(tb, echoMux(), clearProtocols(true, false)) }, true, testkit.Limit()},
		"h2c":      {func(tb testing.TB) *remote { return servePeer(tb, echoMux(), clearProtocols(false, true)) }, false, testkit.Limit()},
		"hangs up on HTTP/2": {func(tb testing.TB) *remote {
			return beforeHTTP1(tb, func(net.Conn) {})
		}, true, testkit.Limit()},
		"ignores HTTP/2": {func(tb testing.TB) *remote {
			return beforeHTTP1(tb, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
		}, true, 5 * time.Second}, // all of it is waited for, and more than a busy machine needs for the attempt after it
	} {
		for _, scheme := range []string{"connect+http", "grpcweb+http"} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				p := tc.peer(t)
				c := newClient(t, p.as(scheme), Options{AttemptTimeout: tc.most})
				for range 3 {
					if got, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil || string(got.Body) != "x" {
						t.Fatalf("got %v, %v", got, err)
					}
				}
				if c.LacksHTTP2() != tc.lacks {
					t.Errorf("lacks HTTP/2: %v, want %v", c.LacksHTTP2(), tc.lacks)
				}
				if most := int64(2); p.conns.Load() > most {
					t.Errorf("%d connections; at most one to find out, and one for the calls", p.conns.Load())
				}
			})
		}
	}
}

// TestABackendThatIsSlowAtFirst answers nothing in HTTP/2 while it is probed, as one may that starts, and is found again in the
// best that it has: by the next question whether it is there, and by what opens a stream.
func TestABackendThatIsSlowAtFirst(t *testing.T) {
	t.Parallel()
	for scheme, best := range map[string]Protocol{"http": ProtocolGRPC, "connect+http": ProtocolConnect, "grpcweb+http": ProtocolGRPCWeb} {
		for name, look := range map[string]func(context.Context, *Client) error{
			"Ping":    func(ctx context.Context, c *Client) error { return c.Ping(ctx) },
			"Streams": func(ctx context.Context, c *Client) error { _, err := c.Streams(ctx); return err },
		} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				awake := make(chan struct{})
				p := before(t, clearProtocols(true, true), func(_ net.Conn, isHTTP2 bool) bool {
					if isHTTP2 {
						<-awake
					}
					return true
				})
				wake := sync.OnceFunc(func() { close(awake) })
				defer wake()
				c := newClient(t, p.as(scheme), Options{AttemptTimeout: 500 * time.Millisecond})
				c.Describe(func() []string { return []string{echoProcedure} })
				if got, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil || string(got.Body) != "x" {
					t.Fatalf("got %v, %v", got, err)
				}
				if !c.LacksHTTP2() {
					t.Fatal("HTTP/2 was found")
				}
				wake()
				testkit.Try(t, "it is found again", func() error {
					if err := look(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					if got := c.Protocol(); got != best || c.LacksHTTP2() {
						return fmt.Errorf("%v, lacks HTTP/2: %v", got, c.LacksHTTP2())
					}
					return nil
				})
				if got, err := c.Call(t.Context(), echoProcedure, []byte("y"), nil); err != nil || string(got.Body) != "y" {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
	}
}

// TestALateLinkIsLookedForAgain: at once after the first time, and then after pauses that double, because streams wait for it.
func TestALateLinkIsLookedForAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var last *link
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		l := &link{late: true}
		if l.putOff(last, now); l.again.Sub(now) != want {
			t.Errorf("after search %d: put off by %v, want %v", i+1, l.again.Sub(now), want)
		}
		last = l
	}
	for range 20 {
		l := &link{late: true}
		l.putOff(last, now)
		last = l
	}
	if last.pause != 10*time.Minute {
		t.Errorf("put off by %v in the end", last.pause)
	}
	for name, tt := range map[string]struct {
		again time.Duration
		asked bool
	}{"it is time": {-time.Second, true}, "not yet": {time.Hour, false}} {
		p := servePeer(t, echoMux(), clearProtocols(true, true))
		c := newClient(t, p.as("http"), Options{})
		c.Describe(func() []string { return []string{echoProcedure} })
		if _, err := c.find(t.Context(), c.hints()); err != nil {
			t.Fatal(err)
		}
		late := *c.link.Load()
		late.late, late.again = true, time.Now().Add(tt.again)
		c.link.Store(&late)
		if _, err := c.Streams(t.Context()); err != nil {
			t.Fatal(err)
		}
		if asked := c.link.Load() != &late; asked != tt.asked {
			t.Errorf("%s: it was looked for: %v", name, asked)
		}
	}
}

// beforeHTTP1 has a server of HTTP/1.1 whose connections talk begins with if they are of HTTP/2.
func beforeHTTP1(tb testing.TB, talk func(net.Conn)) *remote {
	tb.Helper()
	return before(tb, clearProtocols(true, false), func(nc net.Conn, isHTTP2 bool) bool {
		if isHTTP2 {
			talk(nc)
		}
		return !isHTTP2
	})
}

// before has a server that gets the connections that admit lets through.
func before(tb testing.TB, protocols *http.Protocols, admit func(nc net.Conn, isHTTP2 bool) bool) *remote {
	tb.Helper()
	inner := servePeer(tb, echoMux(), protocols)
	return rawPeer(tb, func(nc net.Conn) {
		defer func() { _ = nc.Close() }()
		begin := bufio.NewReader(nc)
		word, err := begin.Peek(len("PRI "))
		if err != nil || !admit(nc, string(word) == "PRI ") {
			return
		}
		far, err := net.Dial("tcp", strings.TrimPrefix(inner.url, "http://"))
		if err != nil {
			return
		}
		defer func() { _ = far.Close() }()
		go func() {
			_, _ = io.Copy(nc, far)
			_ = nc.Close()
		}()
		_, _ = io.Copy(far, begin)
	})
}

// TestReplacedHTTPVersion: a backend that is replaced by one of the other version of HTTP is found again after
// one failed call at most for the connection that broke, and one for the version.
func TestReplacedHTTPVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ before, after *http.Protocols }{
		"HTTP/1.1 to h2c": {clearProtocols(true, false), clearProtocols(false, true)},
		"h2c to HTTP/1.1": {clearProtocols(false, true), clearProtocols(true, false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testkit.Reserved(t)
			serve := func(protocols *http.Protocols) (stop func()) {
				lis, err := net.Listen("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				srv := &http.Server{Handler: echoMux(), Protocols: protocols, ReadHeaderTimeout: time.Minute}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = srv.Serve(lis)
				}()
				return func() {
					_ = srv.Close()
					<-done
				}
			}
			c := newClient(t, "connect+http://"+addr, Options{})
			stop := serve(tc.before)
			if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil {
				t.Fatal(err)
			}
			stop()
			stop = serve(tc.after)
			defer stop()
			for tries := 0; ; tries++ {
				_, err := c.Call(t.Context(), echoProcedure, nil, nil)
				if err == nil {
					break
				}
				if tries == 2 {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestDescribedProcedureShowsTheProtocol has servers without health check and reflection. The
// procedures of the descriptors tell what they speak, whether they list the content types that
// they take, as connect-go does, or only refuse the others, as connect-es does. None of them runs.
func TestDescribedProcedureShowsTheProtocol(t *testing.T) {
	t.Parallel()
	silent := func(next http.Handler) http.Handler { // tells no content types
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == unknownType && r.URL.Path != healthProcedure {
				w.WriteHeader(http.StatusUnsupportedMediaType)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	for _, tc := range []struct {
		name   string
		wrap   func(Protocol, http.Handler) http.Handler
		h1, h2 bool
		want   Protocol
	}{
		{"Connect, HTTP/1.1", only, true, false, ProtocolConnect},
		{"Connect, h2c", only, false, true, ProtocolConnect},
		{"gRPC-Web, HTTP/1.1", only, true, false, ProtocolGRPCWeb},
		{"gRPC", only, false, true, ProtocolGRPC},
	} {
		for method, procedure := range map[string]string{"unary": echoProcedure, "stream": countProcedure} {
			t.Run(tc.name+" "+method, func(t *testing.T) {
				t.Parallel()
				var ran atomic.Int64
				mux := http.NewServeMux()
				unary(mux, echoProcedure, func(ctx context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
					ran.Add(1)
					return echo(ctx, req)
				})
				mux.Handle(countProcedure, connect.NewServerStreamHandler(countProcedure, func(context.Context, *connect.Request[rawMessage], *connect.ServerStream[rawMessage]) error {
					ran.Add(1)
					return nil
				}, connect.WithCodec(rawCodec{})))
				p := servePeer(t, tc.wrap(tc.want, silent(mux)), clearProtocols(tc.h1, tc.h2))
				c := newClient(t, p.url, Options{})
				if err := c.Ping(t.Context()); err == nil {
					t.Error("recognised without a procedure")
				}
				c.Describe(func() []string { return []string{"/test.v1.Gone/Gone", procedure} })
				if err := c.Ping(t.Context()); err != nil || c.Protocol() != tc.want {
					t.Errorf("%v over %v", err, c.Protocol())
				}
				if ran.Load() != 0 {
					t.Error("the method ran")
				}
			})
		}
	}
}

// TestAGreetingIsNoConnection: that a server of HTTP/1.1 hangs up on the greeting of HTTP/2 is no loss of the backend.
func TestAGreetingIsNoConnection(t *testing.T) {
	t.Parallel()
	p := servePeer(t, connectStreams(), clearProtocols(true, false))
	c := newClient(t, p.as("connect+http"), Options{})
	for range 5 {
		s, err := c.OpenStream(t.Context(), chatProcedure, connect.StreamTypeBidi, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Receive()
		if e := failure(t, err); e.Kind != KindUnsupported {
			t.Errorf("got %v", err)
		}
		s.Close()
	}
	select {
	case <-c.Lost():
		t.Error("the backend counts as lost")
	default:
	}
}
