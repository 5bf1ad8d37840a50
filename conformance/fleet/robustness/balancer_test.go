// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// dialTimeout bounds the wait for one replica before the next is tried.
const dialTimeout = time.Second

// balancer gives each new connection to the next replica that takes it. It knows nothing of what the connections
// carry, and takes a stopped process for a live one, because its kernel accepts connections.
type balancer struct {
	listener net.Listener

	mu      sync.Mutex
	targets []string // "" is a replica that does not run
	next    int
	conns   map[net.Conn]bool
	closed  bool
	all     sync.WaitGroup
}

func startBalancer(t *testing.T, replicas int) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, targets: make([]string, replicas), conns: map[net.Conn]bool{}}
	b.all.Go(b.accept)
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		b.closed = true
		for c := range b.conns {
			_ = c.Close()
		}
		b.mu.Unlock()
		b.all.Wait()
	})
	return b
}

func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

// set says where a replica listens.
func (b *balancer) set(replica int, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets[replica] = addr
}

// use says where all replicas listen.
func (b *balancer) use(addrs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = addrs
}

func (b *balancer) accept() {
	for {
		in, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.all.Go(func() { b.serve(in) })
	}
}

// turn returns the replicas in the order in which this connection tries them.
func (b *balancer) turn() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for i := range b.targets {
		if addr := b.targets[(b.next+i)%len(b.targets)]; addr != "" {
			out = append(out, addr)
		}
	}
	b.next++
	return out
}

func (b *balancer) serve(in net.Conn) {
	defer func() { _ = in.Close() }()
	for _, addr := range b.turn() {
		out, err := net.DialTimeout("tcp", addr, dialTimeout)
		if err != nil {
			continue
		}
		if b.add(in, out) {
			join(in, out)
		}
		_ = out.Close()
		b.remove(in, out)
		return
	}
}

// join copies both ways until one of them ends.
func join(a, b net.Conn) {
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	copying.Wait()
}

func (b *balancer) add(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		b.conns[c] = true
	}
	return !b.closed
}

func (b *balancer) remove(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		delete(b.conns, c)
	}
}
