// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// 200 calls at once, each with its own payload, share one pool and never meet.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	const calls = 200
	for _, tc := range []struct {
		name   string
		scheme string
		tls    bool
		conns  int64 // the most that may be opened; with a limit, that may be open at once
		limit  int
	}{
		{name: "gRPC", scheme: "grpc", conns: 1},
		{name: "probed", scheme: "http", conns: 1},
		{name: "Connect", scheme: "connect+http", conns: defaultMaxConns}, // net/http dials more than it then needs
		// Where a busy machine keeps net/http from noticing within 50 ms that it has
		// written a request, it does not use the connection again: it dials another, which
		// may be there before the server sees the end of the first.
		{name: "Connect, few connections", scheme: "connect+http", conns: 8 + 7, limit: 8},
		{name: "gRPC over TLS", scheme: "grpcs", tls: true, conns: 1},
		{name: "Connect over TLS", scheme: "connect+https", tls: true, conns: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var p *remote
			o := patient(nil)
			o.MaxConns = tc.limit
			if tc.tls {
				p = serveOver(t, a, healthMux(), onLoopback(), true, true, false)
				o.Config.Tls = &configv1.BackendTls{CaFile: a.File}
			} else {
				p = servePeer(t, healthMux(), clearProtocols(true, true))
			}
			c := newClient(t, p.as(tc.scheme), o)
			var wg sync.WaitGroup
			for i := range calls {
				wg.Go(func() {
					for round := range 5 {
						want := fmt.Sprintf("call %d round %d", i, round)
						got, err := c.Call(t.Context(), echoProcedure, []byte(want), http.Header{"X-Nonce": {want}})
						if err != nil || string(got.Body) != want || got.Header.Get("X-Nonce") != want {
							t.Errorf("%s: got %v, %v", want, got, err)
						}
					}
				})
			}
			wg.Wait()
			n := p.conns.Load()
			if tc.limit > 0 {
				n = p.most.Load()
			}
			if n > tc.conns || n == 0 {
				t.Errorf("%d connections, at most %d expected", n, tc.conns)
			}
		})
	}
}

// Idle connections are kept and used again.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	p := servePeer(t, echoMux(), clearProtocols(true, true))
	for i, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{})
		for range 20 {
			if _, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.conns.Load(); n != int64(i+1) {
			t.Errorf("%s: %d connections so far, want %d", scheme, n, i+1)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	for _, scheme := range append(allSchemes(), "http") {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{}, 1)
			mux := healthMux()
			unary(mux, "/test.v1.Echo/Hang", func(ctx context.Context, _ *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
				reached <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			})
			p := servePeer(t, mux, clearProtocols(true, true))
			c := newClient(t, p.as(scheme), Options{})
			inFlight := make(chan error, 1)
			go func() {
				_, err := c.Call(t.Context(), "/test.v1.Echo/Hang", []byte("x"), nil)
				inFlight <- err
			}()
			<-reached
			if err := errors.Join(c.Close(), c.Close()); err != nil {
				t.Fatal(err)
			}
			if e := failure(t, <-inFlight); e.Kind != KindTransport || !e.Sent {
				t.Errorf("call in flight: got %v", e)
			}
			_, err := c.Call(t.Context(), echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindUnreachable || e.Sent || !errors.Is(err, errClosed) {
				t.Errorf("call after close: got %v", err)
			}
		})
	}
	t.Run("before the first call", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, "http://127.0.0.1:1", Options{})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Probe(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("during a probe", func(t *testing.T) {
		t.Parallel()
		reached := make(chan struct{}, 1)
		p := servePeer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			reached <- struct{}{}
			<-r.Context().Done()
		}), clearProtocols(true, true))
		c := newClient(t, p.url, patient(nil))
		probe := make(chan error, 1)
		go func() { probe <- c.Probe(t.Context()) }()
		<-reached
		_ = c.Close()
		if err := <-probe; !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// Calls keep nothing: no goroutine, connection or method beyond the bounds.
func TestNothingIsLeft(t *testing.T) {
	p := servePeer(t, healthMux(), clearProtocols(true, true))
	c := newClient(t, p.url, Options{MaxMethods: 3})
	for i := range 20 {
		procedure := fmt.Sprintf("/test.v1.Echo/M%d", i)
		for range 2 {
			_, err := c.Call(t.Context(), procedure, nil, nil)
			if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeUnimplemented {
				t.Fatalf("got %v", err)
			}
		}
	}
	kept := 0
	c.methods.Range(func(any, any) bool { kept++; return true })
	if kept != 3 || c.kept.Load() != 3 {
		t.Errorf("%d methods are kept, counted %d", kept, c.kept.Load())
	}
	before := runtime.NumGoroutine()
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := c.Call(ctx, echoProcedure, []byte("x"), nil)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
	c.conns.mu.Lock()
	open := len(c.conns.open)
	c.conns.mu.Unlock()
	if open != 1 {
		t.Errorf("%d connections open, want 1", open)
	}
}

func TestReflectionThroughStreams(t *testing.T) {
	t.Parallel()
	mux := healthMux()
	reflector := grpcreflect.NewStaticReflector("grpc.health.v1.Health")
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	p := servePeer(t, mux, clearProtocols(true, true))
	connectOnly := servePeer(t, only(ProtocolConnect, mux), clearProtocols(true, true))
	for name, target := range map[string]string{
		"gRPC":            p.as("grpc"),
		"probed":          p.as("http"),
		"Connect":         p.as("connect+http"),
		"Connect, probed": connectOnly.as("http"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, target, Options{})
			e, err := c.Streams(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stream := grpcreflect.NewClient(e.HTTPClient, e.BaseURL, e.Options...).NewStream(t.Context())
			services, err := stream.ListServices()
			if err != nil || len(services) != 1 || services[0] != "grpc.health.v1.Health" {
				t.Errorf("got %v, %v", services, err)
			}
			if _, err := stream.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("no backend", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, "http://"+testkit.Dead(t), Options{})
		_, err := c.Streams(t.Context())
		if e := failure(t, err); e.Kind != KindUnreachable {
			t.Errorf("got %v", err)
		}
	})
}
