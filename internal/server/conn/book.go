// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"net"
	"sync"
	"sync/atomic"
)

// book knows every open connection of one listener: a connection is in it from
// Accept to Close, whatever net/http thinks of its state.
type book struct {
	// leaving is set when the drain begins: from then on each HTTP/1.1 connection
	// ends with its next answer, and each HTTP/2 connection gets GOAWAY.
	leaving atomic.Bool

	mu   sync.Mutex
	open map[*watched]struct{}
}

func newBook() *book { return &book{open: map[*watched]struct{}{}} }

func (b *book) add(c *watched) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[c] = struct{}{}
}

func (b *book) remove(c *watched) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

// conns returns the connections that are open now.
func (b *book) conns() []*watched {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*watched, 0, len(b.open))
	for c := range b.open {
		all = append(all, c)
	}
	return all
}

// any reports whether a connection is open for which match holds.
func (b *book) any(match func(*watched) bool) bool {
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

	book    *book
	refused *Refused
}

// Accept implements [net.Listener].
func (l *bookedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := newWatched(conn, l.refused, l.book)
	l.book.add(c)
	return c, nil
}
