// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"sync"
	"sync/atomic"
)

// connBook knows every open connection of one listener: a connection is in it from
// Accept to Close, whatever net/http thinks of its state.
type connBook struct {
	// leaving is set when the drain begins: from then on each HTTP/1.1 connection
	// ends with its next answer, and each HTTP/2 connection gets GOAWAY.
	leaving atomic.Bool

	mu   sync.Mutex
	open map[*watchedConn]struct{}
}

func newConnBook() *connBook { return &connBook{open: map[*watchedConn]struct{}{}} }

func (b *connBook) add(c *watchedConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[c] = struct{}{}
}

func (b *connBook) remove(c *watchedConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

// conns returns the connections that are open now.
func (b *connBook) conns() []*watchedConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*watchedConn, 0, len(b.open))
	for c := range b.open {
		all = append(all, c)
	}
	return all
}

// any reports whether a connection is open for which match holds.
func (b *connBook) any(match func(*watchedConn) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		if match(c) {
			return true
		}
	}
	return false
}

// bookedListener enters what it accepts in a book.
type bookedListener struct {
	net.Listener

	book    *connBook
	refused *refusedConns
}

// Accept implements [net.Listener].
func (l *bookedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := newWatchedConn(conn, l.refused, l.book)
	l.book.add(c)
	return c, nil
}
