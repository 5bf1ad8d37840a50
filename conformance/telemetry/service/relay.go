// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"
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
	open     map[net.Conn]struct{}
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
	r := &Relay{Addr: l.Addr().String(), target: target, listener: l, open: map[net.Conn]struct{}{}, refused: make(chan struct{}, mostRefused)}
	r.running.Go(r.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.running.Wait()
	})
	return r
}

// noticed is time enough for a peer on loopback to see that its connection is closed, so that it will not try it again.
const noticed = 100 * time.Millisecond

// mostRefused is how many refusals wait to be read; more are forgotten.
const mostRefused = 1024

// Refused has an element for each connection that was refused.
func (r *Relay) Refused() <-chan struct{} { return r.refused }

// Cut closes all connections, and new ones at once until Mend.
func (r *Relay) Cut() {
	if r.cut() {
		time.Sleep(noticed)
	}
}

// Mend lets connections through again.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = false
}

// cut reports whether there was a connection to close.
func (r *Relay) cut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = true
	for conn := range r.open {
		_ = conn.Close()
	}
	return len(r.open) > 0
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
	r.open[conn] = struct{}{}
	return true
}

func (r *Relay) carry(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
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
