// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sharedListener lets one server take a socket over from another: net/http's
// server closes its listener when it begins to shut down, and only then says
// goodbye to its HTTP/2 connections and closes idle ones. A sidecar that drains
// has to do the latter and still answer who comes, to say where it stands.
type sharedListener struct {
	net.Listener

	accepted chan acceptance
	closed   chan struct{}
	once     sync.Once
	refused  *refusedConns
	pumping  sync.WaitGroup
}

// acceptance is what Accept returned.
type acceptance struct {
	conn net.Conn
	err  error
}

// share begins to accept; Close ends that.
func share(l net.Listener, refused *refusedConns) *sharedListener {
	s := &sharedListener{Listener: l, accepted: make(chan acceptance), closed: make(chan struct{}), refused: refused}
	s.pumping.Go(s.pump)
	return s
}

func (s *sharedListener) pump() {
	for {
		conn, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if conn != nil {
			conn = &watchedConn{Conn: conn, to: s.refused}
		}
		// Other errors, such as no more files, are for the server: it waits a while.
		select {
		case s.accepted <- acceptance{conn, err}:
		case <-s.closed:
			if conn != nil {
				_ = conn.Close() // nobody is left to serve it
			}
			return
		}
	}
}

// Close closes the socket and all views of it.
func (s *sharedListener) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		close(s.closed)
		err = s.Listener.Close()
		s.pumping.Wait()
	})
	return err
}

// pass gives on what a view took and may not keep.
func (s *sharedListener) pass(a acceptance) {
	select {
	case s.accepted <- a:
	case <-s.closed:
		if a.conn != nil {
			_ = a.conn.Close()
		}
	}
}

// view is the listener as one server has it: its end is that server's alone.
func (s *sharedListener) view() *listenerView {
	return &listenerView{shared: s, closed: make(chan struct{}), fresh: map[net.Conn]struct{}{}, open: map[net.Conn]struct{}{}, changed: make(chan struct{}, 1)}
}

type listenerView struct {
	shared  *sharedListener
	closed  chan struct{}
	changed chan struct{} // told when fresh gets empty after the end

	mu    sync.Mutex
	ended bool
	// fresh are connections of which no request has reached a handler, open all that
	// there are.
	fresh, open map[net.Conn]struct{}

	// leaving is set when the server is about to shut down: its connections end with
	// the answer to their next request, so that callers who go on leave by themselves.
	leaving atomic.Bool
}

// Accept implements net.Listener. After Close nothing is taken, also by an Accept
// that was waiting.
func (v *listenerView) Accept() (net.Conn, error) {
	select {
	case a := <-v.shared.accepted:
		if v.keep(a.conn) {
			return a.conn, a.err
		}
		v.shared.pass(a)
	case <-v.closed:
	case <-v.shared.closed:
	}
	return nil, net.ErrClosed
}

// keep notes a connection as fresh; false after the end.
func (v *listenerView) keep(conn net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		return false
	}
	if conn != nil {
		v.fresh[conn], v.open[conn] = struct{}{}, struct{}{}
	}
	return true
}

// begun tells that a request of a connection has reached a handler, or none ever
// will.
func (v *listenerView) begun(conn net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.fresh, underTLS(conn))
	if v.ended && len(v.fresh) == 0 {
		wake(v.changed)
	}
}

// settle waits until a request of each connection has reached a handler: net/http
// closes a connection without a word whose first request it reads after its
// shutdown has begun. It waits no longer than patience, because some only connect.
func (v *listenerView) settle(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		v.mu.Lock()
		left := len(v.fresh)
		v.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-v.changed:
		case <-timer.C:
			return
		case <-v.shared.closed:
			return
		}
	}
}

// gone tells that a connection is no longer the server's.
func (v *listenerView) gone(conn net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, underTLS(conn))
}

// Times of a pause between two requests of a connection: a caller that has a next
// one sends it long before restAfter is over, and restEvery is how often it is looked
// whether it has.
const (
	restAfter = 50 * time.Millisecond
	restEvery = time.Millisecond
)

// rest waits for a moment in which no connection has just been answered. net/http
// closes those that are idle when it shuts down, and a caller that goes on at once
// would have its next request on the way, and no answer to it. It waits no longer
// than patience.
func (v *listenerView) rest(patience time.Duration) {
	for end := time.Now().Add(patience); !v.resting(time.Now()) && time.Now().Before(end); {
		time.Sleep(restEvery)
	}
}

// resting reports whether every connection is at work, or has been idle for a while.
func (v *listenerView) resting(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for conn := range v.open {
		if w := watchedOf(conn); w != nil && w.idleFor(now) < restAfter {
			return false
		}
	}
	return true
}

// Close implements net.Listener.
func (v *listenerView) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.ended = true
		v.leaving.Store(true)
		close(v.closed)
	}
	return nil
}

// watch makes a server tell which connections are fresh no more.
func (v *listenerView) watch(server *http.Server) {
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, &connOf{watched: watchedOf(conn), begun: sync.OnceFunc(func() { v.begun(conn) })})
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if w := watchedOf(conn); w != nil {
			w.changed(state)
		}
		if state == http.StateClosed || state == http.StateHijacked {
			v.begun(conn)
			v.gone(conn)
		}
	}
	server.Handler = &arrival{view: v, next: server.Handler}
}

// arrival is a handler that tells of the requests that have come as far. Its frame
// is small, because a stream waits on top of it for hours.
type arrival struct {
	view *listenerView
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *arrival) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived(r)
	if h.view.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	h.next.ServeHTTP(w, r)
}

// arrived tells the connection of a request that it has reached a handler.
func arrived(r *http.Request) {
	conn, ok := r.Context().Value(connKey{}).(*connOf)
	if !ok {
		return
	}
	conn.begun()
	if conn.watched != nil {
		conn.watched.begin(r)
	}
}

// connOf is the connection that a request came on, and what is to be called for
// the first of it.
type connOf struct {
	watched *watchedConn
	begun   func()
}

// connKey is the key of a connOf in a request's context.
type connKey struct{}

// Addr implements net.Listener.
func (v *listenerView) Addr() net.Addr { return v.shared.Addr() }

// parting ends every connection after one answer: with Connection: close on
// HTTP/1.1, which net/http turns into GOAWAY on HTTP/2.
func parting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
	})
}
