// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// diary is what a server ran, by what it was asked.
type diary struct {
	mu   sync.Mutex
	runs map[string]int
}

// ran returns how often something ran.
func (d *diary) ran(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[what]
}

// twice lists what ran more than once.
func (d *diary) twice() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, n := range d.runs {
		if n > 1 {
			all = append(all, what)
		}
	}
	return all
}

// grpcGo is an echo server of grpc-go that writes down what it runs, at the end of a way. What begins with "slow" takes 3 s.
func grpcGo(tb testing.TB, opts ...grpc.ServerOption) (*way, *diary) {
	tb.Helper()
	road := newWay(tb)
	d := &diary{runs: map[string]int{}}
	server := grpc.NewServer(append(opts, grpc.ForceServerCodec(grpcCodec{}))...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.v1.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Echo",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				in := new([]byte)
				if err := decode(in); err != nil {
					return nil, err
				}
				d.mu.Lock()
				d.runs[string(*in)]++
				d.mu.Unlock()
				if len(*in) > 4 && string((*in)[:4]) == "slow" {
					select {
					case <-time.After(3 * time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return in, nil
			},
		}},
	}, nil)
	go func() { _ = server.Serve(road) }()
	tb.Cleanup(server.Stop)
	return road, d
}

// sockets is how many connections a client has open, whatever it thinks of them.
func sockets(c *Client) int {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	return len(c.conns.open)
}

// outcome is the end of a call.
type outcome struct {
	err  error
	took time.Duration
	at   time.Time
}

// start makes a call with ten seconds of time.
func start(ctx context.Context, c *Client, what string) <-chan outcome {
	over := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		began := time.Now()
		got, err := c.Call(ctx, echoProcedure, []byte(what), nil)
		if err == nil && string(got.Body) != what {
			err = fmt.Errorf("%q is not the answer to %q", got.Body, what)
		}
		now := time.Now()
		over <- outcome{err, now.Sub(began), now}
	}()
	return over
}

// A connection that is dead without a word is found out by the first calls on it.
// Those after them go to a new one; a call that may be repeated fails soon, any
// other when there is no hope; and nothing runs twice.
func TestASilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		road, book := grpcGo(t)
		c := newClient(t, "grpc://backend", Options{Dial: road.Dial, PingTimeout: 4 * time.Second})
		if got := <-start(t.Context(), c, "before"); got.err != nil {
			t.Fatal(got.err)
		}
		road.silence()
		death := time.Now()
		firm, loose := start(t.Context(), c, "firm"), start(Repeatable(t.Context(), always{}), c, "loose")
		// Those who call when the death is found out must not wait. How long that takes
		// shows in the two calls before them.
		testkit.Until(t, "no connection for unary gRPC calls takes new ones", func() bool {
			trusted, _ := c.wires.count()
			return trusted == 0
		})
		for i := range 20 {
			if got := <-start(t.Context(), c, fmt.Sprintf("after %d", i)); got.err != nil || got.took > 0 {
				t.Errorf("call %d after the death: %v, after %v", i, got.err, got.took)
			}
		}
		for what, over := range map[string]struct {
			calls <-chan outcome
			least time.Duration
			most  time.Duration
		}{
			"loose": {loose, 2 * time.Second, 4900 * time.Millisecond},
			"firm":  {firm, 5 * time.Second, 10 * time.Second},
		} {
			got := <-over.calls
			// The first of the two calls starts the clock for both, so the other one may have a
			// little less than the least.
			if e := failure(t, got.err); e.Kind != KindTransport || !e.Sent || got.at.Sub(death) < over.least || got.took > over.most {
				t.Errorf("%s: %v after %v, want it between %v and %v", what, got.err, got.took, over.least, over.most)
			}
			if n := book.ran(what); n != 0 {
				t.Errorf("%s ran %d times: the path is not silent", what, n)
			}
		}
		if n := road.conns.Load(); n != 2 {
			t.Errorf("%d connections were made, want 2", n)
		}
		if n := sockets(c); n != 1 {
			t.Errorf("%d connections are open at the end", n)
		}
		if all := book.twice(); len(all) > 0 {
			t.Errorf("ran twice: %q", all)
		}
		idle(t, c)
	})
}

// A call that is made at the very moment of the death, and one every 50 ms from
// then on: none that succeeds waits much longer than it takes to find out.
func TestNobodyWaitsLongForADeadConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		road, book := grpcGo(t)
		c := newClient(t, "grpc://backend", Options{Dial: road.Dial})
		if got := <-start(t.Context(), c, "before"); got.err != nil {
			t.Fatal(got.err)
		}
		road.silence()
		var calls sync.WaitGroup
		var slowest atomic.Int64
		for i := range 100 {
			calls.Go(func() {
				began, what := time.Now(), fmt.Sprint(i)
				for { // as somebody does who may repeat a call
					got := <-start(Repeatable(t.Context(), always{}), c, what)
					if got.err == nil {
						break
					}
					if e := failure(t, got.err); e.Kind != KindTransport {
						t.Errorf("call %d: %v", i, got.err)
						return
					}
				}
				for took := int64(time.Since(began)); ; {
					if old := slowest.Load(); took <= old || slowest.CompareAndSwap(old, took) {
						return
					}
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		calls.Wait()
		if took := time.Duration(slowest.Load()); took > 3*time.Second {
			t.Errorf("a call waited %v", took)
		} else {
			t.Logf("the slowest of 100 calls took %v", took)
		}
		if all := book.twice(); len(all) > 0 {
			t.Errorf("ran twice, although what was repeated had never arrived: %q", all)
		}
	})
}

// A peer that is stopped for five seconds loses no call: neither those that it
// had, on the connection that is under suspicion, nor those that came meanwhile.
// There is at most one connection more than before, whatever is tried.
func TestAStoppedPeerLosesNothing(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, defaultMaxHTTP2Conns} {
		t.Run(fmt.Sprintf("%d connections", most), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				road, book := grpcGo(t)
				c := newClient(t, "grpc://backend", Options{Config: &configv1.Backend{ConnectTimeout: durationpb.New(700 * time.Millisecond)}, Dial: road.Dial, MaxHTTP2Conns: most})
				if got := <-start(t.Context(), c, "before"); got.err != nil {
					t.Fatal(got.err)
				}
				road.stop()
				began := time.Now()
				var calls []<-chan outcome
				for time.Since(began) < 5*time.Second {
					calls = append(calls, start(t.Context(), c, fmt.Sprintf("firm %d", len(calls))))
					time.Sleep(25 * time.Millisecond)
					if n := sockets(c); n > 2 {
						t.Fatalf("%d connections to a peer that is stopped", n)
					}
				}
				road.goOn()
				for i, over := range calls {
					if got := <-over; got.err != nil {
						t.Errorf("call %d: %v after %v", i, got.err, got.took)
					}
				}
				if all := book.twice(); len(all) > 0 {
					t.Errorf("ran twice: %q", all)
				}
				if tried := road.conns.Load(); tried < 3 {
					t.Errorf("%d connections were tried: the peer was never under suspicion", tried)
				}
				idle(t, c)
			})
		})
	}
}

// A server of grpc-go ends a connection, with all calls on it, whose client pings
// too often. Neither calls that are slow nor callers that give up make it do so.
func TestPingsThatServersTolerate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A fixed window keeps the server from pinging by itself, which would be a sign
		// of life.
		road, _ := grpcGo(t, grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(1<<20))
		c := newClient(t, "grpc://backend", Options{Dial: road.Dial, QuietAfter: 50 * time.Millisecond})
		if got := <-start(t.Context(), c, "before"); got.err != nil {
			t.Fatal(got.err)
		}
		slow := start(t.Context(), c, "slow and kept")
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if _, err := c.Call(ctx, echoProcedure, fmt.Appendf(nil, "slow %d", i), nil); failure(t, err).Kind != KindTimeout {
				t.Errorf("call %d: %v", i, err)
			}
			cancel()
		}
		for i := range 20 {
			start(t.Context(), c, fmt.Sprintf("slow too %d", i))
			time.Sleep(100 * time.Millisecond)
		}
		if got := <-slow; got.err != nil {
			t.Error(got.err)
		}
		if n := road.conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// always grants every claim.
type always struct{}

func (always) Claim() bool { return true }
