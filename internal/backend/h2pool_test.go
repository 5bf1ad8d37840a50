// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// limited is an echo server that takes few streams on a connection. With a gate,
// it sends to it when a call begins and holds the call until gate is closed.
func limited(tb testing.TB, streams int, gate *gate) (p *remote, most *atomic.Int64) {
	tb.Helper()
	most = new(atomic.Int64)
	var running atomic.Int64
	mux := http.NewServeMux()
	unary(mux, echoProcedure, func(ctx context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if gate != nil {
			gate.begun <- struct{}{}
			select {
			case <-gate.open:
			case <-ctx.Done():
			}
		}
		return connect.NewResponse(req.Msg), nil
	})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p = &remote{url: "http://" + lis.Addr().String()}
	srv := &http.Server{
		Handler: mux, Protocols: clearProtocols(false, true), ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams},
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				p.conns.Add(1)
			}
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	tb.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return p, most
}

type gate struct{ begun, open chan struct{} }

// Many more calls than the peer takes at once: they wait for each other, and the
// connections stay few.
func TestCallsBeyondTheStreamLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ streams, conns int }{{1, 1}, {1, 3}, {10, 1}, {10, 3}, {90, 1}} {
		t.Run(fmt.Sprintf("%d streams, %d connections", tc.streams, tc.conns), func(t *testing.T) {
			t.Parallel()
			p, most := limited(t, tc.streams, nil)
			c := newClient(t, p.as("grpc"), Options{MaxHTTP2Conns: tc.conns})
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					for range 3 {
						want := fmt.Sprint(i)
						got, err := c.Call(t.Context(), echoProcedure, []byte(want), nil)
						if err != nil || string(got.Body) != want {
							t.Errorf("call %d: %v, %v", i, got, err)
						}
					}
				})
			}
			wg.Wait()
			if n := p.conns.Load(); n > int64(tc.conns) {
				t.Errorf("%d connections, want at most %d", n, tc.conns)
			}
			if n := most.Load(); n > int64(tc.streams*tc.conns) {
				t.Errorf("%d calls at once", n)
			}
			idle(t, c)
		})
	}
}

// idle asserts that no call holds a stream and nothing waits for one.
func idle(tb testing.TB, c *Client) {
	tb.Helper()
	for _, p := range []*h2Pool{c.h2.h2, c.wires} {
		idlePool(tb, p)
	}
}

func idlePool(tb testing.TB, p *h2Pool) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, hc := range p.conns {
		if hc.active != 0 {
			tb.Errorf("connection %d: %d streams are held", i, hc.active)
		}
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	if n := len(p.queue.turns); n != 0 {
		tb.Errorf("%d still wait", n)
	}
}

// A full peer makes calls wait; one that gives up leaves its place to the next,
// and no stream is lost by it.
func TestGivingUpWhileWaiting(t *testing.T) {
	t.Parallel()
	gate := &gate{begun: make(chan struct{}, 100), open: make(chan struct{})}
	p, _ := limited(t, 2, gate)
	c := newClient(t, p.as("grpc"), Options{MaxHTTP2Conns: 1})
	var held sync.WaitGroup
	for range 2 {
		held.Go(func() {
			if _, err := c.Call(t.Context(), echoProcedure, []byte("held"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	<-gate.begun
	<-gate.begun
	var quitters sync.WaitGroup
	for range 50 {
		quitters.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := c.Call(ctx, echoProcedure, []byte("waits"), nil)
			if e := failure(t, err); e.Kind != KindTimeout || e.Sent {
				t.Errorf("got %v", err)
			}
		})
	}
	quitters.Wait()
	close(gate.open)
	held.Wait()
	for range 10 {
		if _, err := c.Call(t.Context(), echoProcedure, []byte("after"), nil); err != nil {
			t.Fatal(err)
		}
	}
	idle(t, c)
}

// Calls that are cancelled at any moment lose no stream. (Reservations of
// http.ClientConn would.)
func TestCancelledCallsLoseNoStream(t *testing.T) {
	t.Parallel()
	p, _ := limited(t, 5, nil)
	c := newClient(t, p.as("grpc"), Options{MaxHTTP2Conns: 1})
	if _, err := c.Call(t.Context(), echoProcedure, nil, nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%30)*100*time.Microsecond)
			defer cancel()
			_, _ = c.Call(ctx, echoProcedure, []byte("x"), nil)
		})
	}
	wg.Wait()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
		if _, err := c.Call(ctx, echoProcedure, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	idle(t, c)
}

// After a GOAWAY the next call goes to a new connection, while a call in flight
// on the old one ends well.
func TestGoAwayWithACallInFlight(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	p := h2peer(t, func(fr *http2.Framer, _ net.Conn, stream uint32, n int) bool {
		if n > 1 {
			return answerGRPC(fr, stream, []byte("new"), "0")
		}
		if fr.WriteGoAway(stream, http2.ErrCodeNo, nil) != nil {
			return false
		}
		close(reached)
		<-release
		return answerGRPC(fr, stream, []byte("old"), "0")
	})
	c := newClient(t, p.as("grpc"), Options{MaxHTTP2Conns: 1})
	first := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), echoProcedure, []byte("1"), nil)
		if err != nil {
			first <- err.Error()
			return
		}
		first <- string(got.Body)
	}()
	<-reached
	got, err := c.Call(t.Context(), echoProcedure, []byte("2"), nil)
	if err != nil || string(got.Body) != "new" {
		t.Errorf("second: %v, %v", got, err)
	}
	close(release)
	if got := <-first; got != "old" {
		t.Errorf("first: %s", got)
	}
	if n := p.conns.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	idle(t, c)
}

// While every dial fails, each waiting call gets the reason, once.
func TestFailedDialReachesEveryWaiter(t *testing.T) {
	t.Parallel()
	c := newClient(t, "grpc://"+testkit.Dead(t), Options{})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			_, err := c.Call(t.Context(), echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindUnreachable || e.Sent {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	idle(t, c)
}
