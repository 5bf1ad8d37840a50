// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay stands in front of a service and can cut it off.
type Relay struct {
	// Addr is the host:port to call.
	Addr string

	target   string
	listener net.Listener
	running  sync.WaitGroup
	mu       sync.Mutex
	refuse   int // how many more connections; below zero all
	open     map[net.Conn]struct{}
}

// StartRelay relays to a host:port until the end of the test.
func StartRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), target: target, listener: l, open: map[net.Conn]struct{}{}}
	r.running.Go(r.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		r.cut(-1)
		r.running.Wait()
	})
	return r
}

// noticed is time enough for a peer on loopback to see that its connection is closed, so that it will not try it again.
const noticed = 100 * time.Millisecond

// Refuse closes all connections, and the next n as soon as they are made; below zero all that follow, 0 none.
func (r *Relay) Refuse(n int) {
	if r.cut(n) {
		time.Sleep(noticed)
	}
}

// cut reports whether there was a connection to close.
func (r *Relay) cut(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = n
	if n == 0 {
		return false
	}
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
	if r.refuse > 0 {
		r.refuse--
		return false
	}
	if r.refuse < 0 {
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
