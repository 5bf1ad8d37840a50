// SPDX-License-Identifier: Apache-2.0

package backend

import (
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
	"connectrpc.com/grpchealth"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func healthMux() *http.ServeMux {
	mux := echoMux()
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker()))
	return mux
}

// catchAll answers unknown procedures as an RPC server does, in its protocol.
func catchAll() *http.ServeMux {
	mux := echoMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h := connect.NewUnaryHandler(r.URL.Path, func(context.Context, *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
			return nil, connect.NewError(connect.CodeUnimplemented, errors.New("unknown service"))
		}, connect.WithCodec(rawCodec{}))
		h.ServeHTTP(w, r)
	})
	return mux
}

func TestProbeFindsTheProtocol(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		handler http.Handler
		h1, h2  bool
		want    Protocol
	}{
		{name: "all three", handler: healthMux(), h1: true, h2: true, want: ProtocolGRPC},
		{name: "all three, HTTP/1 only", handler: healthMux(), h1: true, want: ProtocolConnect},
		{name: "all three, HTTP/2 only", handler: healthMux(), h2: true, want: ProtocolGRPC},
		{name: "gRPC alone", handler: only(ProtocolGRPC, healthMux()), h2: true, want: ProtocolGRPC},
		{name: "Connect alone", handler: only(ProtocolConnect, healthMux()), h1: true, h2: true, want: ProtocolConnect},
		{name: "Connect alone, HTTP/1 only", handler: only(ProtocolConnect, healthMux()), h1: true, want: ProtocolConnect},
		{name: "Connect alone, HTTP/2 only", handler: only(ProtocolConnect, healthMux()), h2: true, want: ProtocolConnect},
		{name: "gRPC-Web alone", handler: only(ProtocolGRPCWeb, healthMux()), h1: true, h2: true, want: ProtocolGRPCWeb},
		{name: "gRPC-Web alone, HTTP/1 only", handler: only(ProtocolGRPCWeb, healthMux()), h1: true, want: ProtocolGRPCWeb},
		{name: "unimplemented proves gRPC", handler: only(ProtocolGRPC, catchAll()), h2: true, want: ProtocolGRPC},
		{name: "unimplemented proves Connect", handler: only(ProtocolConnect, catchAll()), h1: true, want: ProtocolConnect},
		{name: "unimplemented proves gRPC-Web", handler: only(ProtocolGRPCWeb, catchAll()), h1: true, want: ProtocolGRPCWeb},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := servePeer(t, tc.handler, clearProtocols(tc.h1, tc.h2))
			c := newClient(t, p.url, Options{})
			if c.Protocol() != ProtocolUnknown {
				t.Errorf("protocol %v before the probe", c.Protocol())
			}
			if err := c.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.Protocol() != tc.want {
				t.Errorf("found %v, want %v", c.Protocol(), tc.want)
			}
			before := p.conns.Load()
			if err := c.Probe(t.Context()); err != nil || p.conns.Load() != before {
				t.Errorf("the result was not remembered: %v", err)
			}
			got, err := c.Call(t.Context(), echoProcedure, []byte("hello"), nil)
			if err != nil || string(got.Body) != "hello" {
				t.Errorf("call: %v, %v", got, err)
			}
		})
	}
}

// A Connect server without health and reflection answers the probe with 404, and
// yet a call finds the protocol: its procedure exists. The method does not run
// for that.
func TestCallFindsWhatTheProbeCannot(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		h1, h2 bool
		want   Protocol
	}{{"HTTP/2", true, true, ProtocolGRPC}, {"HTTP/1", true, false, ProtocolConnect}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var ran atomic.Int64
			mux := http.NewServeMux()
			unary(mux, echoProcedure, func(ctx context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
				ran.Add(1)
				return echo(ctx, req)
			})
			p := servePeer(t, mux, clearProtocols(tc.h1, tc.h2))
			c := newClient(t, p.url, Options{})
			err := c.Probe(t.Context())
			if e := failure(t, err); e.Kind != KindGarbage || e.Sent {
				t.Errorf("probe: got %v", err)
			}
			if got, err := c.Call(t.Context(), echoProcedure, []byte("hello"), nil); err != nil || string(got.Body) != "hello" {
				t.Errorf("call: %v, %v", got, err)
			}
			if c.Protocol() != tc.want || ran.Load() != 1 {
				t.Errorf("protocol %v, the method ran %d times", c.Protocol(), ran.Load())
			}
			other := newClient(t, p.url, Options{})
			if err := other.Probe(t.Context(), echoProcedure); err != nil || other.Protocol() != tc.want || ran.Load() != 1 {
				t.Errorf("probe with a procedure: %v, %v, ran %d", err, other.Protocol(), ran.Load())
			}
		})
	}
}

func TestProbeTellsEachAttempt(t *testing.T) {
	t.Parallel()
	webServer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"not found"}`) // JSON, but no error of Connect
	})
	p := servePeer(t, webServer, clearProtocols(true, false))
	c := newClient(t, p.url, Options{})
	err := c.Probe(t.Context())
	if e := failure(t, err); e.Kind != KindGarbage {
		t.Errorf("got %v", err)
	}
	probe := new(probeError)
	if !errors.As(err, &probe) {
		t.Fatalf("no ProbeError in %v", err)
	}
	for i, want := range []string{
		"gRPC over HTTP/2: the server answers in HTTP/1",
		"Connect over HTTP/1.1: HTTP 404 application/json",
		"gRPC-Web over HTTP/1.1: HTTP 404 application/json",
		"content types of /grpc.reflection.v1.ServerReflection/ServerReflectionInfo: HTTP 404",
	} {
		if got := probe.Attempts[i].What + ": " + probe.Attempts[i].Cause.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("attempt %d: got %q, want %q", i, got, want)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not tell %q", err, want)
		}
	}
}

func TestProbeOfPeersThatSayNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		talk func(net.Conn)
		want Kind
	}{
		"closes at once": {func(nc net.Conn) { _ = nc.Close() }, KindUnreachable},
		"resets at once": {resetConn, KindUnreachable},
		"never answers":  {func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) }, KindUnreachable},
		"not HTTP":       {text("SSH-2.0-OpenSSH_9.9\r\n"), KindGarbage},
		"TLS":            {text("\x15\x03\x01\x00\x02\x02\x46"), KindGarbage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rawPeer(t, tc.talk)
			// A busy machine may take a while to hear what the peer says; from one that says nothing there is nothing to hear.
			o := Options{AttemptTimeout: 5 * time.Second}
			if name == "never answers" {
				o.AttemptTimeout = 50 * time.Millisecond
			}
			c := newClient(t, p.url, o)
			err := c.Probe(t.Context())
			if e := failure(t, err); e.Kind != tc.want || e.Sent {
				t.Errorf("got %v", err)
			}
			_, err = c.Call(t.Context(), echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != tc.want || e.Sent {
				t.Errorf("call: got %v", err)
			}
		})
	}
}

// A probe that cannot connect stops there: the next attempt would dial the same
// address.
func TestProbeOfNothing(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://"+testkit.Dead(t), Options{})
	err := c.Probe(t.Context())
	probe := new(probeError)
	if !errors.As(err, &probe) || len(probe.Attempts) != 1 {
		t.Errorf("got %v", err)
	}
	if e := failure(t, err); e.Kind != KindUnreachable {
		t.Errorf("got %v", err)
	}
}

// The backend may come up after the client, and after calls that failed.
func TestLateBackend(t *testing.T) {
	t.Parallel()
	addr := testkit.Reserved(t)
	for _, scheme := range append(allSchemes(), "http") {
		c := newClient(t, scheme+"://"+addr, Options{})
		_, err := c.Call(t.Context(), echoProcedure, []byte("early"), nil)
		if e := failure(t, err); e.Kind != KindUnreachable {
			t.Fatalf("%s: got %v", scheme, err)
		}
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: echoMux(), Protocols: clearProtocols(true, true), ReadHeaderTimeout: time.Minute}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = srv.Serve(lis)
		}()
		got, err := c.Call(t.Context(), echoProcedure, []byte("late"), nil)
		if err != nil || string(got.Body) != "late" {
			t.Errorf("%s: got %v, %v", scheme, got, err)
		}
		_ = srv.Close()
		<-done
		if _, err := c.Call(t.Context(), echoProcedure, []byte("gone"), nil); err == nil {
			t.Errorf("%s: a call to a stopped backend succeeded", scheme)
		}
	}
}

// Many first callers share one search.
func TestConcurrentFirstCalls(t *testing.T) {
	t.Parallel()
	var probes atomic.Int64
	inner := healthMux()
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthProcedure {
			probes.Add(1)
		}
		inner.ServeHTTP(w, r)
	}), clearProtocols(true, true))
	c := newClient(t, p.url, Options{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := probes.Load(); n != 1 {
		t.Errorf("%d health checks for one search", n)
	}
}

// A caller may look for the link just before a search ends, and for a search just
// after: it takes what was found.
func TestASearchThatHasJustEndedIsEnough(t *testing.T) {
	t.Parallel()
	p := servePeer(t, healthMux(), clearProtocols(true, true))
	c := newClient(t, p.url, Options{})
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := c.join(nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	default:
		t.Fatal("another search was begun")
	}
	if s.link != c.link.Load() {
		t.Error("the result is another one")
	}
}

// The search goes on for the others when the caller that began it gives up.
func TestSearchOutlivesItsFirstCaller(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inner := healthMux()
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthProcedure {
			once.Do(func() { close(reached) })
			<-release
		}
		inner.ServeHTTP(w, r)
	}), clearProtocols(true, true))
	c := newClient(t, p.url, patient(nil))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- c.Probe(ctx) }()
	<-reached
	second := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		second <- err
	}()
	cancel()
	if e := failure(t, <-first); e.Kind != KindCancelled || e.Sent {
		t.Errorf("first: got %v", e)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
}

// A backend that is replaced by one of another protocol is found again.
func TestReplacedBackend(t *testing.T) {
	t.Parallel()
	var now atomic.Value
	now.Store(ProtocolGRPC)
	inner := healthMux()
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		only(now.Load().(Protocol), inner).ServeHTTP(w, r) //nolint:forcetypeassert // stored above
	}), clearProtocols(true, true))
	c := newClient(t, p.url, Options{})
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil {
		t.Fatal(err)
	}
	now.Store(ProtocolConnect)
	_, err := c.Call(t.Context(), echoProcedure, nil, nil)
	if e := failure(t, err); e.Kind != KindForeign {
		t.Errorf("got %v", err)
	}
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil || c.Protocol() != ProtocolConnect {
		t.Errorf("got %v over %v", err, c.Protocol())
	}
}

func TestProbeRefusesBadProcedures(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://"+testkit.Dead(t), Options{})
	if e := failure(t, c.Probe(t.Context(), "/a/b/c")); e.Kind != KindRejected {
		t.Errorf("got %v", e)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	healthy := servePeer(t, healthMux(), clearProtocols(true, true))
	bare := servePeer(t, echoMux(), clearProtocols(true, true)) // answers 404
	page := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>")
	}), clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		for _, p := range []*remote{healthy, bare} {
			if err := newClient(t, p.as(scheme), Options{}).Ping(t.Context()); err != nil {
				t.Errorf("%s: %v", scheme, err)
			}
		}
		if e := failure(t, newClient(t, page.as(scheme), Options{}).Ping(t.Context())); e.Kind != KindForeign {
			t.Errorf("%s, web page: got %v", scheme, e)
		}
		down := newClient(t, scheme+"://"+testkit.Dead(t), Options{})
		if e := failure(t, down.Ping(t.Context())); e.Kind != KindUnreachable {
			t.Errorf("%s, nothing there: got %v", scheme, e)
		}
	}
	if err := newClient(t, healthy.url, Options{}).Ping(t.Context()); err != nil {
		t.Errorf("probed: %v", err)
	}
}
