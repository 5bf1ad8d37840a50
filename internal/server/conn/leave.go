// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"net"
	"net/http"
	"time"
)

// How connections end in a drain. net/http's Shutdown closes connections that are
// idle at that moment, and loses the request that is on its way on one of them. So
// connections leave by themselves first, and Shutdown comes when none is left:
//
//   - leave: from now on each HTTP/1.1 connection ends with its next answer
//     (Connection: close), or when it has been idle for idleLeave. Each HTTP/2
//     connection gets a GOAWAY that still admits every stream.
//   - part: the connections that were open before have left. The listener closes,
//     and what it had accepted leaves as well. HTTP/2 gets the GOAWAY that names the
//     last stream.
const (
	// idleLeave is how long an HTTP/1.1 connection may be idle in a drain, counted
	// from its last answer, or from when it was made.
	idleLeave = 5 * time.Second
	// leavePoll is how often a drain looks at the connections that are left.
	leavePoll = 10 * time.Millisecond
	// h2Settle is how long a client's streams may still come after it has confirmed
	// GOAWAY: clients confirm on another thread than they send on.
	h2Settle = 50 * time.Millisecond
	// goAwayTimeout is how long an HTTP/2 client may take to confirm GOAWAY.
	goAwayTimeout = time.Second
)

// Leave starts the drain of the connections of every listener; they are still served.
// Only the first call has an effect.
func (s *Sockets) Leave() {
	s.leaveOnce.Do(func() {
		s.leftAt = time.Now()
		for _, one := range s.all {
			one.book.leaving.Store(true)
			for _, c := range one.book.conns() {
				c.hurry()
			}
		}
	})
}

// DrainConns drains the connections from before Leave, closes the main listener, and
// closes the connections that it accepted. It waits gracefully until soft ends,
// and returns at the latest when end does.
func (s *Sockets) DrainConns(soft, end context.Context) {
	s.Leave()
	s.await(soft, func(one *Socket, c *watched) bool {
		// An operator may be waiting for the end of this drain.
		return c.accepted.Before(s.leftAt) && (one.main || c.isQuiet()) && !c.mayEnd()
	})
	for _, one := range s.all {
		if !one.main {
			continue
		}
		one.stopAccepting(end)
		s.await(soft, func(of *Socket, c *watched) bool { return of == one && !c.mayEnd() })
		one.shutdown(end)
	}
}

// await waits until no connection is left for which stays holds, or ctx ends.
func (s *Sockets) await(ctx context.Context, stays func(*Socket, *watched) bool) {
	ticker := time.NewTicker(leavePoll)
	defer ticker.Stop()
	for {
		left := false
		for _, one := range s.all {
			left = left || one.book.any(func(c *watched) bool { return stays(one, c) })
		}
		if !left {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// stopAccepting closes the listener after everything that it holds has been
// accepted. Connections that the kernel has completed wait there, and would be reset.
func (o *Socket) stopAccepting(ctx context.Context) {
	o.closing.Do(func() {
		refuseNew(o.listener)
		for deadline := time.Now().Add(handshakes(o.listener.Addr())); ctx.Err() == nil; {
			if time.Now().After(deadline) && queued(o.listener) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = o.listener.Close()
		select {
		case <-o.served: // everything that was accepted is in the book
		case <-ctx.Done():
		}
	})
}

// handshakes is how long a connection that is being made when the listener stops
// taking new ones has to complete. On loopback the kernel does that at once.
func handshakes(addr net.Addr) time.Duration {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return 5 * time.Millisecond
	}
	return 200 * time.Millisecond
}

// shutdown ends a server whose listener is closed, with its last connections.
func (o *Socket) shutdown(ctx context.Context) {
	o.ending.Do(func() {
		if err := o.server.Shutdown(ctx); err != nil {
			_ = o.server.Close()
		}
	})
}

// end closes a listener and ends its server. Connections with a request in flight
// get until ctx ends, idle ones no time at all.
func (s *Sockets) end(ctx context.Context, one *Socket) {
	one.stopAccepting(ctx)
	s.await(ctx, func(of *Socket, c *watched) bool { return of == one && !c.isQuiet() && !c.mayEnd() })
	one.shutdown(ctx)
}

// hurry begins to let a connection go that was open when the drain began.
func (c *watched) hurry() {
	if h2 := c.h2.Load(); h2 != nil {
		h2.Leave()
		return
	}
	c.pace.Lock()
	defer c.pace.Unlock()
	if c.isQuiet() && (c.deadlines.Load() > 0) {
		// Where net/http has not set its own deadline yet, SetReadDeadline sees to it.
		_ = c.Conn.SetReadDeadline(c.quietSince().Add(idleLeave))
	}
}

// isQuiet reports whether an HTTP/1.1 connection is between two requests, or before
// its first, and nothing of the next has come.
func (c *watched) isQuiet() bool {
	if c.h2.Load() != nil || c.read.Load() > 0 {
		return false
	}
	switch http.ConnState(c.state.Load()) {
	case http.StateNew:
		return true
	case http.StateIdle:
		return c.deadlines.Load() <= 1
	case http.StateActive, http.StateHijacked, http.StateClosed:
	}
	return false
}

// quietSince is when a quiet connection became so.
func (c *watched) quietSince() time.Time {
	if rested := c.rested.Load(); rested != 0 {
		return time.Unix(0, rested)
	}
	return c.accepted
}

// mayEnd reports whether a connection can be closed without taking an answer from
// anybody: an HTTP/2 client has confirmed that it goes, and all its streams are
// over. HTTP/1.1 connections end by themselves.
func (c *watched) mayEnd() bool {
	h2 := c.h2.Load()
	if h2 == nil || http.ConnState(c.state.Load()) != http.StateIdle {
		return false
	}
	return released(h2) || !c.handled.Load() && time.Since(c.accepted) > idleLeave
}

// sooner is the earlier of two deadlines; the zero time is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// watch makes a server tell what becomes of its connections.
func (o *Socket) watch(server *http.Server) {
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, watchedOf(conn))
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if c := watchedOf(conn); c != nil {
			c.changed(state)
		}
	}
	server.Handler = &arrival{book: o.book, next: server.Handler}
}

// arrival is a handler that tells of the requests that have come as far. Its frame
// is small, because a stream waits on top of it for hours.
type arrival struct {
	book *book
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *arrival) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*watched); ok && c != nil {
		c.begin(r)
		limits := limitOf(c)
		defer limits.End()
		if limits.Begin() || h.book.leaving.Load() {
			c.takeLeave(w)
		}
	}
	h.next.ServeHTTP(w, r)
}

// takeLeave makes a connection end with an answer that begins now. HTTP/2 clients
// are told to go first, so that none of their streams meets the end.
func (c *watched) takeLeave(w http.ResponseWriter) {
	if h2 := c.h2.Load(); h2 != nil && !overdue(h2) {
		h2.Leave()
		return
	}
	w.Header().Set("Connection", "close")
}

// connKey is the key of a request's *watched in its context.
type connKey struct{}
