// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Relay is in front of a service and can cut it off.
type Relay struct {
	// Addr is the host:port to call.
	Addr string

	target   string
	listener net.Listener
	running  sync.WaitGroup
	mu       sync.Mutex
	refuse   bool
	refused  chan struct{}
	admitted chan struct{}
	open     map[net.Conn]chan struct{} // closed when the connection is
}

// StartRelay relays to a host:port until the end of the test.
func StartRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	return relayAt(tb, "tcp", "127.0.0.1:0", target)
}

// StartUnixRelay is StartRelay on a Unix socket, whose path is Addr.
func StartUnixRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	return relayAt(tb, "unix", filepath.Join(tb.TempDir(), "relay.sock"), target)
}

func relayAt(tb testing.TB, network, address, target string) *Relay {
	tb.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), target: target, listener: l, open: map[net.Conn]chan struct{}{}}
	r.refused, r.admitted = make(chan struct{}, mostNoted), make(chan struct{}, mostNoted)
	r.running.Go(r.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		r.cut(net.Conn.Close)
		r.running.Wait()
	})
	return r
}

// mostNoted is how many connections of a kind wait to be read; more are forgotten.
const mostNoted = 1024

// Refused has an element for each connection that was refused.
func (r *Relay) Refused() <-chan struct{} { return r.refused }

// Cut ends all connections, and closes new ones at once until Mend. It returns when the peer has closed its side of each, so that it
// sends nothing more on one of them.
func (r *Relay) Cut(tb testing.TB) {
	tb.Helper()
	for _, closed := range r.cut(closeWrite) {
		testkit.Receive(tb, "the end of a connection that was cut", closed)
	}
}

// Mend lets connections through again. It returns when there is one: what the sidecar began before has failed by then, so that the next
// call does not share that.
func (r *Relay) Mend(tb testing.TB) {
	tb.Helper()
	r.mu.Lock()
	for len(r.admitted) > 0 {
		<-r.admitted
	}
	r.refuse = false
	r.mu.Unlock()
	testkit.Receive(tb, "a connection after the cut", r.admitted)
}

// cut returns what is closed with each connection that was open.
func (r *Relay) cut(end func(net.Conn) error) (open []<-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = true
	for conn, closed := range r.open {
		_ = end(conn)
		open = append(open, closed)
	}
	return open
}

// closeWrite tells the peer that nothing more comes.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return conn.Close()
	}
	return half.CloseWrite()
}

func (r *Relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !r.admit(conn) {
			_ = conn.Close()
			continue
		}
		r.running.Go(func() { r.carry(conn) })
	}
}

func (r *Relay) admit(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		note(r.refused)
		return false
	}
	r.open[conn] = make(chan struct{})
	note(r.admitted)
	return true
}

func (r *Relay) carry(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.open[conn])
		delete(r.open, conn)
	}()
	to, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, to)
		_ = conn.Close()
	})
	_, _ = io.Copy(to, conn)
	_ = to.Close()
	back.Wait()
}
