// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
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

// pod is a gRPC server on an address of its own.
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

// Calls go to all addresses of a name, each over a connection of its own.
func TestBalanceOverTwo(t *testing.T) {
	t.Parallel()
	p := startPods(t, 2)
	c, _ := p.balanced(t, nil)
	if _, failed := load(t, c, 8, 1000); failed > 0 {
		t.Errorf("%d calls failed", failed)
	}
	if each, sum := p.counts(); sum != 1000 || slices.Min(each) < 300 {
		t.Errorf("the calls went %v", each)
	}
}
