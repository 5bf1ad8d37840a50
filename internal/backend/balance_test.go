// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// names is a resolver whose addresses a test changes.
type names struct {
	mu    sync.Mutex
	found []netip.Addr
	err   error
	asked atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	n.asked.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if network != "ip" {
		return nil, errors.New("asked for network " + network)
	}
	return slices.Clone(n.found), n.err
}

func (n *names) set(err error, found ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found, n.err = found, err
}

// plainCodec passes bytes through a gRPC server.
type plainCodec struct{}

func (plainCodec) Name() string                    { return "proto" }
func (plainCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }                   //nolint:forcetypeassert // of one type
func (plainCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = slices.Clone(b); return nil } //nolint:forcetypeassert // likewise

// pod is a gRPC server on one of the addresses.
type pod struct {
	addr   netip.Addr
	server *grpc.Server
	calls  atomic.Int64
	// answers, if set, runs within each call but health checks.
	answers atomic.Pointer[func(ctx context.Context) error]
}

func (p *pod) serve(_ any, stream grpc.ServerStream) error {
	if name, _ := grpc.MethodFromServerStream(stream); name == healthProcedure {
		return status.Error(codes.Unimplemented, "no health check")
	}
	p.calls.Add(1)
	var in []byte
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	if answer := p.answers.Load(); answer != nil {
		if err := (*answer)(stream.Context()); err != nil {
			return err
		}
	}
	out := []byte(p.addr.String())
	return stream.SendMsg(&out)
}

func (p *pod) answer(with func(ctx context.Context) error) { p.answers.Store(&with) }

// pods are servers on loopback addresses, all on one port.
type pods struct {
	port uint16
	all  []*pod
}

// startPods starts n servers on 127.0.0.2 and the addresses behind it.
func startPods(tb testing.TB, n int) *pods {
	tb.Helper()
	for range 20 {
		p, err := tryPods(tb, n)
		if err == nil {
			return p
		}
		tb.Log(err) // the port was taken on one of the addresses
	}
	tb.Fatal("no port is free on all addresses")
	return nil
}

func tryPods(tb testing.TB, n int) (*pods, error) {
	tb.Helper()
	out := &pods{}
	for i := range n {
		if err := out.start(tb, i+2); err != nil {
			for _, p := range out.all {
				p.server.Stop()
			}
			return nil, err
		}
	}
	return out, nil
}

// start starts one more server, on 127.0.0.last.
func (p *pods) start(tb testing.TB, last int) error {
	tb.Helper()
	addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(last)})
	lis, err := net.Listen("tcp", netip.AddrPortFrom(addr, p.port).String())
	if err != nil {
		return err
	}
	p.port = lis.Addr().(*net.TCPAddr).AddrPort().Port() //nolint:forcetypeassert // a TCP listener
	one := &pod{addr: addr}
	one.server = grpc.NewServer(grpc.ForceServerCodec(plainCodec{}), grpc.UnknownServiceHandler(one.serve))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = one.server.Serve(lis)
	}()
	tb.Cleanup(func() {
		one.server.Stop()
		<-done
	})
	p.all = append(p.all, one)
	return nil
}

// url names the servers, under a name that no DNS server has.
func (p *pods) url() string { return "dns:///shop.invalid:" + strconv.Itoa(int(p.port)) }

func (p *pods) addrs() (out []netip.Addr) {
	for _, one := range p.all {
		out = append(out, one.addr)
	}
	return out
}

// counts are the calls of each server since the last time, and their sum.
func (p *pods) counts() (each []int64, sum int64) {
	for _, one := range p.all {
		n := one.calls.Swap(0)
		each, sum = append(each, n), sum+n
	}
	return each, sum
}

// balanced is a client of the servers, all of which are connected.
func (p *pods) balanced(tb testing.TB, o *configv1.BackendBalance) (*Client, *names) {
	tb.Helper()
	found := &names{}
	found.set(nil, p.addrs()...)
	c := newClient(tb, p.url(), Options{Config: &configv1.Backend{Balance: o}, Resolver: found})
	if err := c.Ping(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	awaitReady(tb, c, len(p.all))
	return c, found
}

func awaitReady(tb testing.TB, c *Client, want int) {
	tb.Helper()
	testkit.Until(tb, fmt.Sprintf("%d addresses are ready", want), func() bool { return len(ready(c)) == want })
}

// ready are the addresses that calls go to.
func ready(c *Client) (out []string) {
	for _, one := range c.Balance().Addresses {
		if one.State == AddressReady {
			out = append(out, one.Address)
		}
	}
	return out
}

// load makes calls from several callers at a time, and returns how long each took and how many failed.
func load(tb testing.TB, c *Client, callers, calls int) (took []time.Duration, failed int) {
	tb.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(calls))
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				begun := time.Now()
				_, err := c.Call(tb.Context(), echoProcedure, []byte("x"), nil)
				mu.Lock()
				took = append(took, time.Since(begun))
				if err != nil {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took, failed
}

// Calls go to all addresses of a name, over a connection to each.
func TestBalanceOverTwo(t *testing.T) {
	t.Parallel()
	p := startPods(t, 2)
	c, _ := p.balanced(t, nil)
	if _, failed := load(t, c, 8, 1000); failed > 0 {
		t.Errorf("%d calls failed", failed)
	}
	// How many go where depends on how fast the servers are, which is chance here.
	if each, sum := p.counts(); sum != 1000 || slices.Min(each) == 0 {
		t.Errorf("the calls went %v", each)
	}
	for _, one := range endpoints(c.many) { // what is unread is asked of the socket
		set := &one.client.conns
		set.mu.Lock()
		for c := range set.open {
			var nc net.Conn = c
			for wrapped, ok := nc.(interface{ NetConn() net.Conn }); ok; wrapped, ok = nc.(interface{ NetConn() net.Conn }) {
				nc = wrapped.NetConn()
			}
			if _, ok := nc.(syscall.Conn); !ok {
				t.Errorf("%T hides the socket", nc)
			}
		}
		set.mu.Unlock()
	}
}

// Addresses that are alike get as many calls each. One with more active calls than all others gets none while there are enough.
func TestLessBusyOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 4, nil)
		b.shares(t, 1, nil)
		synctest.Wait()
		for address, n := range b.shares(t, 4000, nil) {
			if n < 850 || n > 1150 {
				t.Errorf("%s got %d of 4000 calls", address, n)
			}
		}
		busy := endpoints(b.many)[0]
		for range 3 {
			b.many.enter(busy)
		}
		if got := b.shares(t, 1000, nil); got[busy.address] != 0 {
			t.Errorf("the busy one got %d of 1000 calls", got[busy.address])
		}
	})
}

// bubble is a client of addresses that are all one server in this process. It is for synctest.
type bubble struct {
	*Client
	names  *names
	server *InProcess

	mu    sync.Mutex
	away  map[string]bool // addresses that refuse connections
	dials map[string]int
}

// inBubble returns a client of the addresses 10.0.0.1 to 10.0.0.n.
func inBubble(t *testing.T, n int, o *configv1.BackendBalance) *bubble {
	t.Helper()
	b := &bubble{names: &names{}, server: NewInProcess(healthMux(), zap.NewNop()), away: map[string]bool{}, dials: map[string]int{}}
	b.has(n)
	target, err := ParseTarget("dns:///shop.invalid:1")
	if err != nil {
		t.Fatal(err)
	}
	b.Client, err = New(target, Options{Config: &configv1.Backend{Balance: o}, Resolver: b.names, Dial: b.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(); _ = b.server.Close() })
	return b
}

func tenDot(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// has makes the name have the first n addresses.
func (b *bubble) has(n int) {
	var found []netip.Addr
	for i := range n {
		found = append(found, tenDot(i+1))
	}
	b.names.set(nil, found...)
}

func (b *bubble) dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.mu.Lock()
	b.dials[address]++
	away := b.away[address]
	b.mu.Unlock()
	if away {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return b.server.Dial(ctx, network, address)
}

func (b *bubble) setAway(address string, away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away[address] = away
}

// shares makes calls that end at once as outcome says, and counts them by address.
func (b *bubble) shares(t *testing.T, calls int, outcome func(address string) error) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range calls {
		_ = b.many.do(t.Context(), func(e *endpoint) error {
			got[e.address]++
			if outcome == nil {
				return nil
			}
			return outcome(e.address)
		})
	}
	return got
}

// endpoints are those in use.
func endpoints(b *balancer) []*endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}

func state(c *Client, address string) AddressStats {
	for _, one := range c.Balance().Addresses {
		if one.Address == address {
			return one
		}
	}
	return AddressStats{}
}

// An address whose calls fail gets none for 30 s, and for longer each time, until it has been well for a while.
func TestEjection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bad = "10.0.0.1:1"
		b := inBubble(t, 3, nil)
		fails := func(address string) error {
			if address == bad {
				return statusError(connect.CodeUnavailable, "")
			}
			return nil
		}
		b.shares(t, 1, nil)
		synctest.Wait()
		for round, want := range []int{30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300} {
			if got := b.shares(t, 1000, fails); got[bad] != ejectAfter {
				t.Fatalf("round %d: %d calls went to the address that fails: %+v", round, got[bad], b.Balance())
			}
			left := time.Duration(want) * time.Second
			if one := state(b.Client, bad); one.State != AddressEjected || one.Left != left || one.Times != round+1 {
				t.Fatalf("round %d: it is %+v, want an ejection for %v", round, one, left)
			}
			for e := range slices.Values(endpoints(b.many)) { // calls that began before
				for range 2 * ejectAfter {
					if e.address == bad {
						b.many.leave(e, b.many.enter(e), fails(bad))
					}
				}
			}
			time.Sleep(left - time.Millisecond)
			if got := b.shares(t, 300, nil); got[bad] != 0 {
				t.Errorf("round %d: %d calls went to an ejected address", round, got[bad])
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if one := state(b.Client, bad); one.State != AddressReady {
				t.Fatalf("round %d: it is %+v after its ejection", round, one)
			}
		}
		time.Sleep(10 * forgiveEvery)
		b.shares(t, 1000, fails)
		if one := state(b.Client, bad); one.Times != 2 || one.Left != 60*time.Second {
			t.Errorf("eleven ejections, ten of them forgiven: %+v", one)
		}
		if got := b.Balance().Ejections; got != 12 {
			t.Errorf("%d ejections", got)
		}
	})
}

// A call that belongs to an address goes there, also while that is ejected, and elsewhere once it cannot be reached or is gone. A call
// that belongs to none says where it went, and its retry is free to go elsewhere.
func TestAffinity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const owner = "10.0.0.3:1"
		b := inBubble(t, 3, nil)
		b.shares(t, 1, nil)
		synctest.Wait()
		calls := func(a *Affinity) map[string]int {
			got := map[string]int{}
			for range 100 {
				if err := b.many.do(WithAffinity(t.Context(), a), func(e *endpoint) error { got[e.address]++; return nil }); err != nil {
					t.Fatal(err)
				}
				if got[a.Used] == 0 {
					t.Fatalf("it went to %q by its own word: %v", a.Used, got)
				}
			}
			return got
		}
		if got := calls(&Affinity{}); len(got) != 3 {
			t.Errorf("without a wish: %v", got)
		}
		if got := calls(&Affinity{Wanted: owner}); got[owner] != 100 {
			t.Errorf("with a wish: %v", got)
		}
		b.shares(t, 200, func(address string) error {
			if address == owner {
				return statusError(connect.CodeUnavailable, "")
			}
			return nil
		})
		if one := state(b.Client, owner); one.State != AddressEjected {
			t.Fatalf("it is %+v", one)
		}
		if got := calls(&Affinity{Wanted: owner}); got[owner] != 100 {
			t.Errorf("while it is ejected: %v", got)
		}
		b.has(2)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := calls(&Affinity{Wanted: owner}); got[owner] != 0 || len(got) != 2 {
			t.Errorf("after it is gone: %v", got)
		}
	})
}

// Only so many are ejected, and never the last one.
func TestEjectionsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		addresses int
		percent   int32
		want      int
	}{
		{addresses: 1, percent: 100, want: 0},
		{addresses: 2, percent: 10, want: 1},
		{addresses: 2, percent: 100, want: 1},
		{addresses: 10, percent: 10, want: 1},
		{addresses: 11, percent: 10, want: 2},
		{addresses: 10, percent: 50, want: 5},
		{addresses: 10, percent: 100, want: 9},
		{addresses: 10, percent: 0, want: 0},
	} {
		t.Run(fmt.Sprintf("%d of %d", tc.percent, tc.addresses), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := inBubble(t, tc.addresses, &configv1.BackendBalance{MaxEjectedPercent: &tc.percent})
				b.shares(t, 1, nil)
				synctest.Wait()
				b.shares(t, 2000, func(string) error { return statusError(connect.CodeUnavailable, "") })
				if got := tc.addresses - len(ready(b.Client)); got != tc.want {
					t.Errorf("%d of %d are ejected, want %d", got, tc.addresses, tc.want)
				}
			})
		})
	}
}

// What counts as a failure of the address, and what does not.
func TestWhatCountsAgainstAnAddress(t *testing.T) {
	t.Parallel()
	refused := newError(KindUnreachable, "", nil)
	limited := newError(KindUnreachable, "", nil)
	limited.HTTPStatus = http.StatusTooManyRequests
	for _, tc := range []struct {
		name string
		err  error
		took time.Duration
		want guardOutcome
	}{
		{"success", nil, 0, answered},
		{"the receiver wanted no more", errors.New("enough"), 0, answered},
		{"unavailable", statusError(connect.CodeUnavailable, ""), 0, failedOnTheWay},
		{"invalid argument", statusError(connect.CodeInvalidArgument, ""), 0, answered},
		{"internal", statusError(connect.CodeInternal, ""), 0, answered},
		{"resource exhausted", statusError(connect.CodeResourceExhausted, ""), 0, answered},
		{"the service's own deadline", statusError(connect.CodeDeadlineExceeded, ""), time.Minute, answered},
		{"refused", refused, 0, failedOnTheWay},
		{"429", limited, 0, answered},
		{"reset", newError(KindTransport, "", nil), 0, failedOnTheWay},
		{"a web page", newError(KindForeign, "", nil), 0, failedOnTheWay},
		{"garbage", newError(KindGarbage, "", nil), 0, failedOnTheWay},
		{"timeout", newError(KindTimeout, "", nil), leastPatience, ranOut},
		{"timeout of a hasty caller", newError(KindTimeout, "", nil), leastPatience - 1, unclear},
		{"cancelled", newError(KindCancelled, "", nil), time.Hour, unclear},
		{"not sent", newError(KindRejected, "", nil), 0, unclear},
		{"a stream that its caller closed", errClosedStream, 0, unclear},
		{"a large answer", newError(KindTooLarge, "", nil), 0, answered},
	} {
		if got := judge(tc.err, tc.took); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A call that an address rejects although there is a connection goes to another address, and takes none away. Neither does the
// timeout of a hurried caller or of a process that stood still, nor an attempt that was given up for the next one. A moment away is no reason for a slow start.
func TestOverloadIsNotUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 2, nil)
		b.shares(t, 1, nil)
		time.Sleep(time.Minute)
		const busy = "10.0.0.1:1"
		rejected := newError(KindUnreachable, "the backend rejected the request", nil)
		for range 50 {
			tried := 0
			if err := b.many.do(t.Context(), func(e *endpoint) error {
				tried++
				if e.address == busy && tried == 1 {
					return rejected
				}
				return nil
			}); err != nil || tried > 2 {
				t.Fatalf("%v after %d tries", err, tried)
			}
			if n := len(ready(b.Client)); n != 2 && state(b.Client, busy).State != AddressEjected {
				t.Fatalf("%d are ready", n)
			}
		}
		time.Sleep(2 * time.Minute) // it was ejected
		late := newError(KindTimeout, "", nil)
		stood := peer.NewClock()
		stood.Stop() // as where this process did not run
		for range 50 {
			_, _ = DoGuarded(t.Context(), NewGuard(&configv1.Resilience{}, GuardOptions{}), GuardedCall{Hurried: true}, func(ctx context.Context) (none struct{}, err *errmap.Error) {
				_ = b.many.do(ctx, func(*endpoint) error {
					time.Sleep(leastPatience)
					return late
				})
				return none, nil
			})
			b.many.client.opts.Clock = stood
			_ = b.many.do(t.Context(), func(*endpoint) error {
				time.Sleep(time.Second)
				return late
			})
			b.many.client.opts.Clock = nil
			claim := new(Claim)
			claim.taken.Store(true)
			_ = b.many.do(Repeatable(t.Context(), claim), func(*endpoint) error { return newError(KindTransport, "", nil) })
		}
		for _, e := range endpoints(b.many) {
			if n := e.failed.Load(); n != 0 {
				t.Errorf("%d failures count", n)
			}
		}
		e := endpoints(b.many)[0]
		unmet := *rejected
		unmet.unmet = true
		b.many.leave(e, b.many.enter(e), &unmet)
		if got := ready(b.Client); len(got) != 1 {
			t.Errorf("ready: %v", got)
		}
		time.Sleep(time.Minute)
		for away, starts := range map[time.Duration]bool{aMoment / 2: false, 2 * aMoment: true} {
			before := e.since.Load()
			b.many.settle(e, &unmet)
			time.Sleep(time.Nanosecond)
			b.many.mu.Lock()
			e.fell = e.fell.Add(-away)
			b.many.mu.Unlock()
			b.many.settle(e, nil)
			if (e.since.Load() != before) != starts {
				t.Errorf("slow start after %v: %v", away, !starts)
			}
		}
	})
}

// Ejected addresses that cannot be reached leave the allowance to others.
func TestUnreachableOnesAreNoEjections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 10, nil)
		b.shares(t, 1, nil)
		synctest.Wait()
		for i, want := range []AddressState{AddressEjected, AddressEjected, AddressReady} {
			e := endpoints(b.many)[i]
			for range ejectAfter {
				b.many.leave(e, b.many.enter(e), statusError(connect.CodeUnavailable, ""))
			}
			if got := state(b.Client, e.address).State; got != want {
				t.Errorf("%d is %v, want %v", i, got, want)
			}
			if i == 0 {
				b.many.settle(e, newError(KindUnreachable, "", nil))
			}
		}
	})
}

// The share of an address that is new rises from a tenth to that of the others.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{30 * time.Second, 0} {
		synctest.Test(t, func(t *testing.T) {
			const fresh = "10.0.0.10:1"
			b := inBubble(t, 9, &configv1.BackendBalance{SlowStart: durationpb.New(window)})
			b.shares(t, 1, nil)
			time.Sleep(time.Minute)
			b.has(10)
			b.many.look()
			for len(ready(b.Client)) < 10 {
				time.Sleep(time.Millisecond)
			}
			begun := time.Now()
			for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
				time.Sleep(time.Duration(part*float64(window)) - time.Since(begun))
				const calls = 20_000
				share := float64(b.shares(t, calls, nil)[fresh]) / calls * 10
				want := max(leastWeight, part)
				if window == 0 {
					want = 1
				}
				t.Logf("after %3.0f %% of %v: %.2f of an equal share", part*100, window, share)
				if share < want-0.08 || share > want+0.08 {
					t.Errorf("the share is %.2f after %v of %v, want %.2f", share, time.Since(begun), window, want)
				}
			}
		})
	}
}

// An address that cannot be reached gets no calls while there is another, and is asked by itself whether it is back. A call that
// it could not take goes to another one. Where none can be reached, calls try all of them.
func TestUnreachableAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const away = "10.0.0.1:1"
		b := inBubble(t, 2, nil)
		b.setAway(away, true)
		for range 20 {
			if _, err := b.Call(t.Context(), echoProcedure, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if one := state(b.Client, away); one.State != AddressUnreachable {
			t.Fatalf("it is %+v", one)
		}
		if got := b.shares(t, 100, nil); got[away] != 0 {
			t.Errorf("%d calls went to it", got[away])
		}
		b.setAway(away, false)
		time.Sleep(longestReconnect * 5 / 4)
		synctest.Wait()
		if got := ready(b.Client); len(got) != 2 {
			t.Errorf("ready: %v", got)
		}

		b.setAway(away, true)
		b.setAway("10.0.0.2:1", true)
		for _, one := range endpoints(b.many) {
			one.client.wires.closeIdle()
		}
		_, err := b.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindUnreachable || !errors.Is(e, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		b.setAway(away, false)
		for range 20 {
			if _, err := b.Call(t.Context(), echoProcedure, nil, nil); err != nil {
				t.Errorf("one can be reached, and yet: %v", err)
			}
		}
	})
}

// An address that does not keep its connections is asked in growing pauses, whether it answers before it hangs up or not.
func TestAnAddressThatHangsUp(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*remote{
		"at the first request": h2peer(t, func(*http2.Framer, net.Conn, uint32, int) bool { return false }),
		"after each answer": servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			healthMux().ServeHTTP(w, r)
		}), clearProtocols(false, true)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := netip.MustParseAddrPort(strings.TrimPrefix(p.as(""), "://"))
			found := &names{}
			found.set(nil, at.Addr())
			c := newClient(t, "dns:///shop.invalid:"+strconv.Itoa(int(at.Port())), Options{Resolver: found})
			begun := time.Now()
			_ = c.Ping(t.Context())
			testkit.Until(t, "five connections have been made", func() bool { return p.conns.Load() >= 5 })
			// The ping above has made one or two; the pauses between the others are 250 ms, 500 ms, and 1 s, a quarter more or less.
			if took := time.Since(begun); took < 500*time.Millisecond {
				t.Errorf("five connections in %v", took)
			}
		})
	}
}

// A call that is made again goes to another address than before.
func TestAnotherAttemptGoesElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 5, nil)
		b.shares(t, 1, nil)
		synctest.Wait()
		for range 100 {
			claim, seen := new(Claim), ""
			for range 2 {
				_ = b.many.do(Repeatable(t.Context(), claim), func(e *endpoint) error {
					if e.address == seen {
						t.Error("the second attempt went to the same address")
					}
					seen = e.address
					return newError(KindTransport, "", nil)
				})
			}
		}
	})
}

// The name is looked up in intervals, and soon after a connection failed, but not more often than once a second. What is known
// stays in use while the name cannot be looked up.
func TestLookups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 2, nil)
		if n := b.names.asked.Load(); n != 0 {
			t.Errorf("looked up %d times before the first call", n)
		}
		b.shares(t, 1, nil)
		time.Sleep(10 * time.Minute)
		if n := b.names.asked.Load(); n < 15 || n > 26 { // 600 s, each 22.5 to 37.5 s
			t.Errorf("looked up %d times in 10 minutes", n)
		}
		b.names.asked.Store(0)
		begun := time.Now()
		for range 1000 {
			b.many.look()
			time.Sleep(10 * time.Millisecond)
		}
		if n := b.names.asked.Load(); n < 7 || n > 15 {
			t.Errorf("looked up %d times in %v", n, time.Since(begun))
		}
		b.setAway("10.0.0.1:1", true)
		endpoints(b.many)[0].client.conns.cut()
		time.Sleep(time.Minute)
		b.names.asked.Store(0)
		time.Sleep(10 * time.Minute)
		if n := b.names.asked.Load(); n > 26 {
			t.Errorf("looked up %d times in 10 minutes with an address that is away", n)
		}
		b.setAway("10.0.0.1:1", false)
		time.Sleep(time.Minute)
		b.names.set(&net.DNSError{Err: "no such host", IsNotFound: true})
		time.Sleep(time.Minute)
		if s := b.Balance(); s.LookupsFailed == 0 || s.LookupError == "" || len(ready(b.Client)) != 2 {
			t.Errorf("while the name cannot be looked up: %+v", s)
		}
		b.setAway("10.0.0.1:1", true)
		endpoints(b.many)[0].client.conns.cut()
		time.Sleep(time.Minute)
		if s := b.Balance(); len(s.Addresses) != 1 || s.Addresses[0].Address != "10.0.0.2:1" {
			t.Errorf("one that the name does not have is away: %+v", s)
		}
		b.setAway("10.0.0.1:1", false)
		b.has(3)
		time.Sleep(time.Minute)
		if s := b.Balance(); s.LookupError != "" || len(ready(b.Client)) != 3 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// The client's owner hears that servers have come, and that none can be reached, but not of connections that are made again at once,
// nor more than once in the interval of look-ups: it loads the catalog each time.
func TestNewServersAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 3, nil)
		told := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case <-b.Lost():
				if !want {
					t.Errorf("told of %s", what)
				}
			default:
				if want {
					t.Errorf("not told of %s", what)
				}
			}
		}
		cut := func() {
			for _, one := range endpoints(b.many) {
				one.client.conns.cut()
			}
		}
		b.shares(t, 1, nil)
		told("the first servers", false)
		for range 10 {
			cut()
			time.Sleep(time.Minute)
			told("connections that were lost and made again", false)
		}
		for range 10 { // one of three comes and goes
			b.setAway("10.0.0.1:1", true)
			cut()
			time.Sleep(20 * time.Second)
			told("one that is away", false)
			b.setAway("10.0.0.1:1", false)
			time.Sleep(20 * time.Second)
			told("one that is back", true)
		}
		b.has(4)
		b.many.look()
		time.Sleep(2 * time.Second)
		told("a change so soon after the one before", false)
		time.Sleep(2 * defaults.BackendBalanceResolveInterval)
		told("a change", true)
		for i := range 4 {
			b.setAway(tenDot(i+1).String()+":1", true)
		}
		cut()
		time.Sleep(time.Second)
		told("the loss of all", true)
	})
}

// cut breaks all connections, as their peer would.
func (s *connSet) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Conn.Close()
	}
}

// Settings for many addresses with a URL of one are a mistake; those that everything has by default are not.
func TestBalanceNeedsManyAddresses(t *testing.T) {
	t.Parallel()
	byDefault := &configv1.BackendBalance{
		ResolveInterval: durationpb.New(defaults.BackendBalanceResolveInterval), SlowStart: durationpb.New(defaults.BackendBalanceSlowStart),
		MaxAddresses: new(int32(defaults.BackendBalanceMaxAddresses)), MaxConnections: new(int32(defaults.BackendBalanceMaxConnections)),
		MaxEjectedPercent: new(int32(defaults.BackendBalanceMaxEjectedPercent)),
	}
	set := proto.CloneOf(byDefault)
	set.MaxAddresses = new(int32(5))
	for _, tc := range []struct {
		url     string
		balance *configv1.BackendBalance
		refused bool
	}{
		{"grpc://h:1", nil, false}, {"grpc://h:1", byDefault, false}, {"grpc://h:1", set, true}, {"unix:///run/s", set, true}, {"dns:///h:1", set, false},
	} {
		cfg := &configv1.Config{Backend: &configv1.Backend{Url: tc.url, Balance: tc.balance}}
		var said []string
		Check(cfg, func(path, message string) { said = append(said, path+": "+message) })
		if tc.refused != slices.Equal(said, []string{"backend.balance: " + errBalanceUnused.Error()}) {
			t.Errorf("%s with %v: %q", tc.url, tc.balance, said)
		}
		target, err := ParseTarget(tc.url)
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(target, Options{Config: cfg.GetBackend()})
		if errors.Is(err, errBalanceUnused) != tc.refused {
			t.Errorf("%s with %v: %v", tc.url, tc.balance, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// doctor's question: a name of several addresses, of which one is used.
func TestCountsAddresses(t *testing.T) {
	t.Parallel()
	found := &names{}
	found.set(nil, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::1"))
	for target, want := range map[string]int{"grpc://shop.invalid:1": 2, "unix:///run/s": 0} {
		if stats, n := newClient(t, target, Options{Resolver: found}).AskAddresses(t.Context()); stats != nil || n != want {
			t.Errorf("%s has %d addresses, want %d", target, n, want)
		}
	}
	if _, n := newClient(t, "grpc://127.0.0.1:1", Options{}).AskAddresses(t.Context()); n != 1 {
		t.Errorf("an address has %d", n)
	}
}

// A call says why no address is known, and the next one finds those that there are by then.
func TestNoAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 0, nil)
		_, err := b.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindUnreachable || FaultOf(err) != FaultUnknownHost {
			t.Errorf("got %v, fault %v", err, FaultOf(err))
		}
		b.has(1)
		time.Sleep(3 * time.Second)
		if _, err := b.Call(t.Context(), echoProcedure, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// Addresses of one family are used, those beyond the bound are counted, and those in use stay.
func TestSelectedAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 0, &configv1.BackendBalance{MaxAddresses: new(int32(10))})
		six, four := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")
		b.names.set(nil, six, four, six, netip.MustParseAddr("fd00::2"))
		b.shares(t, 1, nil)
		synctest.Wait()
		if got := ready(b.Client); !slices.Equal(got, []string{"[fd00::1]:1", "[fd00::2]:1"}) {
			t.Errorf("ready: %v", got)
		}
		for _, tc := range []struct {
			found []netip.Addr
			want  string
		}{
			{[]netip.Addr{netip.AddrFrom16(four.As16()), six}, "[fd00::1]:1"}, // as long as the name has some of the family in use
			{[]netip.Addr{netip.AddrFrom16(four.As16())}, "10.0.0.1:1"},
		} {
			b.names.set(nil, tc.found...)
			b.many.look()
			time.Sleep(2 * time.Second)
			if got := ready(b.Client); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("ready: %v", got)
			}
		}
		var before []string
		for range 20 {
			b.has(1000)
			b.many.look()
			time.Sleep(2 * time.Second)
			now := ready(b.Client)
			if s := b.Balance(); len(now) != 10 || s.LeftOut != 990 || before != nil && !slices.Equal(before, now) {
				t.Fatalf("%v after %v, %d left out", now, before, s.LeftOut)
			}
			before = now
		}
		if !slices.Contains(before, "10.0.0.1:1") {
			t.Errorf("%v, without the one that was in use", before)
		}
	})
}

// An address that the name has no longer is used until one can be reached that the name has, and not longer than it can be reached
// itself.
func TestAddressesBeforeOthersAreThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 1, nil)
		const old, now = "10.0.0.1:1", "10.0.0.2:1"
		uses := func(when string, want ...string) {
			t.Helper()
			b.many.look()
			time.Sleep(2 * longestReconnect)
			if got := ready(b.Client); !slices.Equal(got, want) {
				t.Errorf("%s: ready are %v, want %v", when, got, want)
			}
			if _, err := b.Call(t.Context(), echoProcedure, nil, nil); (err == nil) != (len(want) > 0) {
				t.Errorf("%s: %v", when, err)
			}
		}
		b.shares(t, 1, nil)
		uses("at first", old)
		b.setAway(now, true)
		b.names.set(nil, tenDot(2))
		uses("while the new one is away", old)
		b.setAway(now, false)
		uses("then", now)
		if s := b.Balance(); len(s.Addresses) != 1 || s.Draining != 0 {
			t.Errorf("afterwards: %+v", s)
		}
		b.setAway(old, true)
		b.has(1)
		uses("back", now)
		b.setAway(now, true)
		endpoints(b.many)[0].client.conns.cut()
		uses("both away")
		if s := b.Balance(); len(s.Addresses) != 1 || s.Addresses[0].Address != old {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// Servers are replaced while calls run, in the order of a rollout: new ones are added, old ones drain, before or after the name
// forgets them. No call is lost, and none runs twice.
func TestRolloutLosesNoCall(t *testing.T) {
	t.Parallel()
	for _, nameFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("the name changes first: %v", nameFirst), func(t *testing.T) {
			t.Parallel()
			p := startPods(t, 4)
			c, found := p.balanced(t, &configv1.BackendBalance{SlowStart: durationpb.New(0)})
			ctx, stop := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			var made, failed atomic.Int64
			for range 8 {
				callers.Go(func() {
					for ctx.Err() == nil {
						made.Add(1)
						if _, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil {
							failed.Add(1)
							t.Errorf("lost: %v", err)
							return
						}
					}
				})
			}
			for round := range 3 {
				for range 2 {
					if err := p.start(t, len(p.all)+2); err != nil {
						t.Skip("the port was taken on a further address: ", err)
					}
				}
				old, now := p.all[2*round:2*round+2], p.addrs()[2*round+2:]
				if nameFirst {
					found.set(nil, now...)
					c.many.look()
					testkit.Until(t, "the new addresses are in use", func() bool { return slices.Equal(ready(c), p.texts(now)) })
				} else {
					found.set(nil, p.addrs()[2*round:]...)
					c.many.look()
					testkit.Until(t, "the new addresses are in use", func() bool { return len(ready(c)) == 6 })
				}
				for _, one := range old {
					one.server.GracefulStop()
				}
				found.set(nil, now...)
				c.many.look()
				testkit.Until(t, "the old addresses are gone", func() bool { return slices.Equal(ready(c), p.texts(now)) && c.Balance().Draining == 0 })
			}
			stop()
			callers.Wait()
			if _, sum := p.counts(); sum != made.Load() || failed.Load() > 0 {
				t.Errorf("%d calls, of which %d failed, ran %d times", made.Load(), failed.Load(), sum)
			}
			t.Logf("%d calls", made.Load())
		})
	}
}

// texts are addresses with the port, in order.
func (p *pods) texts(of []netip.Addr) (out []string) {
	for _, addr := range of {
		out = append(out, netip.AddrPortFrom(addr, p.port).String())
	}
	slices.Sort(out)
	return out
}

// A stream counts as an active call until it ends, also on an address that the name has no longer, and ends well there.
func TestStreamsOfAnAddressThatIsGone(t *testing.T) {
	t.Parallel()
	p := startPods(t, 2)
	release := make(chan struct{})
	for _, one := range p.all {
		one.answer(func(ctx context.Context) error {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	}
	c, found := p.balanced(t, nil)
	var open []*Stream
	for range 10 {
		s, err := c.OpenStream(t.Context(), echoProcedure, connect.StreamTypeServer, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Send([]byte("x")); err != nil {
			t.Fatal(err)
		}
		s.CloseSend()
		open = append(open, s)
	}
	busy, begun := 0, uint64(0)
	for _, one := range c.Balance().Addresses {
		busy += int(one.Active)
		begun += one.Calls
		if one.Active < 3 { // the one with fewer gets the next
			t.Errorf("%d of 10 streams are on %s", one.Active, one.Address)
		}
	}
	if busy != 10 || begun < 10 || begun > 13 { // with the probes
		t.Errorf("%d active calls, %d were begun", busy, begun)
	}
	found.set(nil, p.all[1].addr)
	c.many.look()
	testkit.Until(t, "one address drains", func() bool { s := c.Balance(); return len(s.Addresses) == 1 && s.Draining == 1 })
	close(release)
	from := map[string]bool{}
	for _, s := range open {
		message, err := s.Receive()
		if err != nil {
			t.Fatalf("a stream was cut: %v", err)
		}
		from[string(message)] = true
		if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("a stream ended with %v", err)
		}
	}
	if len(from) != 2 {
		t.Errorf("answers of %v", from)
	}
	testkit.Until(t, "the address is closed", func() bool { return c.Balance().Draining == 0 })
}

// Targets of every protocol can have many addresses. The authority of requests and the name in the certificate are those of the
// target, whatever the address.
func TestNamesAreThoseOfTheTarget(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	var host atomic.Pointer[string]
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(&r.Host)
		healthMux().ServeHTTP(w, r)
	})
	plain := servePeer(t, handler, clearProtocols(true, true))
	over := serveOver(t, a, handler, tlstest.Leaf{Hosts: []string{"shop.invalid"}}, true, true, false)
	for scheme, protocol := range map[string]Protocol{
		"dns+grpc": ProtocolGRPC, "dns+grpcs": ProtocolGRPC, "dns+http": ProtocolGRPC, "dns+https": ProtocolGRPC,
		"dns+connect+http": ProtocolConnect, "dns+connect+https": ProtocolConnect, "dns+grpcweb+http": ProtocolGRPCWeb, "dns+grpcweb+https": ProtocolGRPCWeb,
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			peer, o := plain, Options{Config: &configv1.Backend{}}
			target, err := ParseTarget(scheme + "://shop.invalid:1")
			if err != nil {
				t.Fatal(err)
			}
			if target.TLS() {
				peer, o.Config.Tls = over, &configv1.BackendTls{CaFile: a.File}
			}
			at := netip.MustParseAddrPort(strings.TrimPrefix(peer.as(""), "://"))
			found := &names{}
			found.set(nil, at.Addr())
			o.Resolver = found
			authority := "shop.invalid:" + strconv.Itoa(int(at.Port()))
			c := newClient(t, scheme+"://"+authority, o)
			answer, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil)
			if err != nil || string(answer.Body) != "x" {
				t.Fatalf("got %v, %v", answer, err)
			}
			if !strings.HasPrefix(*host.Load(), "shop.invalid:") { // another subtest may have been here since
				t.Errorf("the authority is %s, want %s", *host.Load(), authority)
			}
			if c.Protocol() != protocol || c.LacksHTTP2() || c.Check(t.Context()) != nil {
				t.Errorf("the protocol is %v", c.Protocol())
			}
			if state(c, at.String()).Calls < 2 {
				t.Errorf("%+v", c.Balance())
			}
		})
	}
}

// 1,000 addresses: as many as there may be are used, with one connection each, and no more memory than those need.
func TestAThousandAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 1000, nil)
		before := heap()
		b.shares(t, 1, nil)
		synctest.Wait()
		s := b.Balance()
		const most = 30 << 20 // with what the servers have of their side
		if grown := heap() - before; grown > most {
			t.Errorf("the heap grew by %d KiB", grown>>10)
		} else {
			t.Logf("the heap grew by %d KiB", grown>>10)
		}
		if stats, n := b.AskAddresses(t.Context()); n != 100 || len(stats.Addresses) != n {
			t.Errorf("%d addresses were asked", n)
		}
		if len(ready(b.Client)) != 100 || s.LeftOut != 900 || s.Connections != 100 {
			t.Errorf("%d ready, %d left out, %d connections", len(ready(b.Client)), s.LeftOut, s.Connections)
		}
		for range 50 {
			b.has(1000)
			b.names.mu.Lock()
			rand.Shuffle(1000, func(i, j int) { b.names.found[i], b.names.found[j] = b.names.found[j], b.names.found[i] })
			b.names.found = b.names.found[:500]
			b.names.mu.Unlock()
			b.many.look()
			time.Sleep(2 * time.Second)
		}
		if s := b.Balance(); s.Connections > 100+s.Draining || s.Draining > 100 {
			t.Errorf("%d connections, %d draining", s.Connections, s.Draining)
		}
	})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Further connections than there may be are not made, and calls go to the addresses that have one.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t, 20, &configv1.BackendBalance{MaxConnections: new(int32(5))})
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if _, err := b.Call(t.Context(), echoProcedure, nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if s := b.Balance(); s.Connections != 5 || len(ready(b.Client)) != 5 {
			t.Errorf("%d connections, %d ready", s.Connections, len(ready(b.Client)))
		}
		if n := endpoints(b.many)[0].client.opts.MaxConns; n != 1 {
			t.Errorf("one of 20 addresses may have %d connections over HTTP/1.1", n)
		}
	})
}

// A server that is ten times slower than the others is least in the way of calls that go to the less busy one of two. The figures
// are those of docs/many-backends.md, in simulated time: on a busy machine, calls wait for other things than servers.
func TestASlowServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, calls = 20, 1000
		b := inBubble(t, 10, nil)
		b.shares(t, 1, nil)
		synctest.Wait()
		all := endpoints(b.many)
		slow := all[0]
		figures := func(name string, choose func(run func(*endpoint) error) error) (rate, onSlow float64) {
			var mu sync.Mutex
			var running sync.WaitGroup
			var each []time.Duration
			var left, toSlow atomic.Int64
			left.Store(calls)
			start := time.Now()
			for range callers {
				running.Go(func() {
					for left.Add(-1) >= 0 {
						begun := time.Now()
						if err := choose(func(e *endpoint) error {
							takes := 5 * time.Millisecond
							if e == slow {
								takes = 50 * time.Millisecond
								toSlow.Add(1)
							}
							time.Sleep(takes)
							return nil
						}); err != nil {
							t.Error(err)
						}
						mu.Lock()
						each = append(each, time.Since(begun))
						mu.Unlock()
					}
				})
			}
			running.Wait()
			rate = calls / time.Since(start).Seconds()
			onSlow = 100 * float64(toSlow.Load()) / calls
			slices.Sort(each)
			t.Logf("%-26s p50 %5.1f ms, p90 %5.1f ms, p99 %5.1f ms, %4.0f calls/s, %5.1f %% on the slow one", name, ms(each[calls/2]), ms(each[calls*9/10]), ms(each[calls*99/100]),
				rate, onSlow)
			return rate, onSlow
		}
		less, onSlow := figures("less busy of two", func(run func(*endpoint) error) error { return b.many.do(t.Context(), run) })
		var turn atomic.Int64
		_, inTurn := figures("round robin", func(run func(*endpoint) error) error { return run(all[turn.Add(1)%10]) })
		one, _ := figures("one address, the slow one", func(run func(*endpoint) error) error { return run(slow) })
		if onSlow > inTurn*0.7 || less < one {
			t.Errorf("the less busy of two: %.0f calls/s, with %.1f %% of them on the slow server; in turn it gets %.1f %%, and alone it takes %.0f calls/s", less, onSlow, inTurn, one)
		}
	})
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Of ten servers one fails every call: its failures end with the ejection.
func TestAServerThatFails(t *testing.T) {
	p := startPods(t, 10)
	p.all[0].answer(func(context.Context) error { return status.Error(codes.Unavailable, "no database") })
	for _, percent := range []int32{0, 10} {
		c, _ := p.balanced(t, &configv1.BackendBalance{MaxEjectedPercent: &percent, SlowStart: durationpb.New(0)})
		_, first := load(t, c, 4, 1000)
		_, then := load(t, c, 4, 1000)
		t.Logf("at most %d %% ejected: %d of the first 1000 calls failed, %d of the next", percent, first, then)
		// Those that were under way when the fifth failed count too.
		if percent == 0 && then < 30 || percent > 0 && (then > 0 || first > ejectAfter+4) {
			t.Errorf("%d and %d of 1000 calls failed", first, then)
		}
	}
}

// A backend with as many calls as it may have takes nothing of what all share, however many more are refused.
func TestRefusedCallsTakeNothingFromOthers(t *testing.T) {
	t.Parallel()
	shared := new(atomic.Int64)
	shared.Store(3)
	g := &Guard{opts: GuardOptions{MaxCalls: 4, OwnCalls: 2, SharedCalls: shared}}
	for want, calls := range []int{2, 3, 4, 40} { // of the rest: 0, 1, 2 and not more
		for int(g.running.Load()) < calls {
			if bound := g.takeCall(g.running.Add(1)); (bound != "") != (g.running.Load() > 4) {
				t.Errorf("call %d: %q", g.running.Load(), bound)
			}
		}
		if taken := 3 - int(shared.Load()); taken != min(want, 2) {
			t.Errorf("%d calls have taken %d", calls, taken)
		}
	}
	for g.running.Load() > 0 {
		g.giveCall()
	}
	if shared.Load() != 3 {
		t.Errorf("%d are left, of 3", shared.Load())
	}
}
