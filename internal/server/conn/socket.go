// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/connlimit"
)

// Sockets are the listeners of one process. The zero value has none. Add all before
// the first call of another method.
type Sockets struct {
	all   []*Socket
	group sync.WaitGroup
	// leaveOnce guards leftAt, which is when the drain began.
	leaveOnce sync.Once
	leftAt    time.Time
}

// Socket is a listener, its server, and the connections of both. Make one with
// [NewSocket].
type Socket struct {
	name     string
	main     bool
	listener net.Listener
	book     *book
	tls      *tls.Config // nil for a plain one
	server   *http.Server
	refused  *Refused
	served   chan struct{} // closed when the server accepts no more

	closing, ending sync.Once
}

// Options configure a socket.
type Options struct {
	// Name is the name in errors.
	Name string
	// Main marks the listener for callers. A drain waits for all of its connections; on
	// other listeners it does not wait for operators that wait for the end of the
	// drain.
	Main bool
	// TLS is nil for a plain listener.
	TLS *tls.Config
	// Refused counts requests that no handler sees.
	Refused *Refused
}

// NewSocket returns a socket for a listener. The socket closes the listener.
func NewSocket(listener net.Listener, o Options) *Socket {
	return &Socket{
		name: o.Name, main: o.Main, listener: listener, tls: o.TLS, refused: o.Refused,
		book: newBook(), served: make(chan struct{}),
	}
}

// Name returns the name in errors.
func (o *Socket) Name() string { return o.name }

// IsMain reports whether the socket is the one for callers.
func (o *Socket) IsMain() bool { return o.main }

// HasTLS reports whether callers need TLS.
func (o *Socket) HasTLS() bool { return o.tls != nil }

// Addr returns the address of the listener.
func (o *Socket) Addr() net.Addr { return o.listener.Addr() }

// All returns the sockets in the order in which they were added.
func (s *Sockets) All() []*Socket { return s.all }

// Add serves a socket with its own server until Close. failed is called at most
// once, if the server ends earlier.
func (s *Sockets) Add(one *Socket, server *http.Server, failed func(error)) {
	s.all = append(s.all, one)
	one.watch(server)
	one.server = server
	listener := &bookedListener{Listener: one.listener, book: one.book, refused: one.refused}
	serve := func() error { return server.Serve(listener) }
	if one.tls != nil {
		server.TLSConfig = one.tls
		server.Protocols.SetHTTP2(true)
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	serveH2(server)
	s.group.Go(func() {
		defer close(one.served)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			failed(err)
		}
	})
}

// shutdownTimeout bounds the end of the connections that are left when everything
// has been answered: HTTP/2's goodbye takes a second.
const shutdownTimeout = 1500 * time.Millisecond

// Close stops accepting, lets connections finish writing and waits for every
// server to end.
func (s *Sockets) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	s.Leave()
	var ending sync.WaitGroup
	for _, one := range s.all {
		ending.Go(func() { s.end(ctx, one) })
	}
	ending.Wait()
	s.group.Wait()
}

// limitOf is the connection as its gate knows it; nil where there is none.
func limitOf(c *watched) *connlimit.Conn {
	l, _ := c.Conn.(*connlimit.Conn)
	return l
}
