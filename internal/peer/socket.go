// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/h2"
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
	opts     SocketOptions
	listener net.Listener
	book     *book
	server   *http.Server
	served   chan struct{} // closed when the server accepts no more

	closing, ending sync.Once
}

// SocketOptions configure a socket.
type SocketOptions struct {
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
func NewSocket(listener net.Listener, o SocketOptions) *Socket {
	return &Socket{opts: o, listener: listener, book: newBook(), served: make(chan struct{})}
}

// Name returns the name in errors.
func (o *Socket) Name() string { return o.opts.Name }

// HasTLS reports whether callers need TLS.
func (o *Socket) HasTLS() bool { return o.opts.TLS != nil }

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
	listener := &wrapped{one.listener, func(conn net.Conn) net.Conn {
		c := newWatched(conn, one.opts.Refused, one.book)
		one.book.add(c)
		return c
	}}
	serve := func() error { return server.Serve(listener) }
	if one.opts.TLS != nil {
		server.TLSConfig = one.opts.TLS
		server.Protocols.SetHTTP2(true)
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	serveH2(server, one.book)
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
		ending.Go(func() { s.closeSocket(ctx, one) })
	}
	ending.Wait()
	s.group.Wait()
}

// Refused counts requests that net/http rejects itself, before any handler sees
// them. Its methods are safe for concurrent use.
type Refused struct {
	// maxHeader is how many bytes of a request's headers net/http reads.
	maxHeader int64
	// slow and large are how many there were.
	slow, large atomic.Uint64
	// malformed is called for each request whose head is no valid HTTP; it may be nil.
	malformed func()
}

// NewRefused returns counts for servers that read so many bytes of headers
// ([http.Server.MaxHeaderBytes]). malformed is called for each request whose head is no
// valid HTTP, and for each HTTP/2 connection that ends with a protocol error before its
// first request. It may be nil, and is called concurrently.
func NewRefused(maxHeader int, malformed func()) *Refused {
	return &Refused{maxHeader: int64(maxHeader), malformed: malformed}
}

// Slow returns the number of requests whose headers took too long.
func (r *Refused) Slow() uint64 { return r.slow.Load() }

// Large returns the number of requests with too large headers.
func (r *Refused) Large() uint64 { return r.large.Load() }

// add counts a request of an HTTP/2 connection.
func (r *Refused) add(tooLarge bool) {
	switch {
	case tooLarge:
		r.large.Add(1)
	case r.malformed != nil:
		r.malformed()
	}
}

// headerSlop is what net/http reads beyond Server.MaxHeaderBytes.
const headerSlop = 4096

// watched is a connection that tracks how much of the next request's headers has arrived. Its
// counts are a handful of atomic operations for each request, and none of memory.
//
// Behind TLS the bytes are those of the records, which are a little more than the
// text in them: a request that is malformed close under the limit may count as
// too large there. On HTTP/2 many requests share a connection: the server tells of
// those that it refuses.
type watched struct {
	carrier

	to   *Refused
	book *book
	// accepted is when the connection came.
	accepted time.Time
	// pace guards the read deadline, which net/http and the drain both set.
	pace sync.Mutex
	// state is the http.ConnState that was told last.
	state atomic.Int32
	// read is what has come since the connection was new or idle, handled that a
	// request of it has reached a handler since, and late that a read has met its
	// deadline. deadlines is how often one was set.
	read          atomic.Int64
	handled, late atomic.Bool
	// opening is the first line. Only the server's reader uses it.
	opening firstLine
	// gone: the client has closed its side, or the connection broke.
	gone      atomic.Bool
	deadlines atomic.Int32
	// rested is when it last became idle, in nanoseconds of Unix time.
	rested atomic.Int64
	// h2 is set on HTTP/2 connections.
	h2 atomic.Pointer[h2.ServerConn]
	// before is what had come when a request without a body reached its handler: what
	// comes after that, while it is answered, is of the next one.
	before atomic.Int64
}

func newWatched(conn net.Conn, to *Refused, book *book) *watched {
	return &watched{carrier: carrier{conn}, to: to, book: book, accepted: time.Now()}
}

// Close implements [net.Conn].
func (c *watched) Close() error {
	c.book.remove(c)
	return c.Conn.Close()
}

// noteRequest notes that a request has reached a handler.
func (c *watched) noteRequest(r *http.Request) {
	c.before.Store(math.MaxInt64)
	if r.Body == nil || r.Body == http.NoBody {
		c.before.Store(c.read.Load())
	}
	c.handled.Store(true)
}

// SetReadDeadline implements [net.Conn]. net/http sets one when a connection gets
// idle, and others when the first bytes of the next request are there; the bytes
// themselves may have been read before, by TLS.
func (c *watched) SetReadDeadline(t time.Time) error {
	c.pace.Lock()
	defer c.pace.Unlock()
	c.deadlines.Add(1)
	if c.book.leaving.Load() && c.isQuiet() {
		t = sooner(t, c.quietSince().Add(idleLeave))
	}
	return c.Conn.SetReadDeadline(t)
}

// Read implements [net.Conn]. A connection whose first line is not HTTP ends without a response: it is an HTTP/2
// client with a wrong preface (RFC 9113, section 3.4), or has another protocol, and would take the response for one
// in that.
func (c *watched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.opening.known && c.opening.isForeign(p[:n]) {
		c.to.add(false)
		c.gone.Store(true)                              // it is counted
		return 0, errors.Join(net.ErrClosed, c.Close()) // else net/http answers what it has of the line
	}
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.book.leaving.Load() && c.isQuiet() {
		// The kernel may have taken the next request in since the deadline passed.
		if late := receiveNow(c.Conn, p); late > 0 {
			n, err = late, nil
		}
	}
	c.read.Add(int64(n))
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.late.Store(true)
	} else if err != nil {
		c.gone.Store(true)
	}
	return n, err
}

// watchedOf is the watched connection under a server's one; nil where it is none.
func watchedOf(conn net.Conn) *watched {
	w, _ := underTLS(conn).(*watched)
	return w
}

// underTLS is a server's connection as the listener accepted it.
func underTLS(conn net.Conn) net.Conn {
	for {
		under, ok := conn.(interface{ NetConn() net.Conn }) // *tls.Conn
		if !ok {
			return conn
		}
		conn = under.NetConn()
	}
}

// changed takes what net/http tells of a connection.
func (c *watched) changed(state http.ConnState) {
	switch state {
	case http.StateIdle:
		c.read.Store(max(0, c.read.Load()-c.before.Load()))
		c.before.Store(math.MaxInt64)
		c.deadlines.Store(0)
		c.late.Store(false)
		c.handled.Store(false)
		c.rested.Store(time.Now().UnixNano())
	case http.StateClosed:
		c.closed(http.ConnState(c.state.Load()))
	case http.StateNew, http.StateActive, http.StateHijacked:
	}
	c.state.Store(int32(state))
}

// closed counts a connection that ended before its next request had come as far
// as a handler.
func (c *watched) closed(from http.ConnState) {
	if c.handled.Load() || from == http.StateHijacked {
		return
	}
	switch {
	case from == http.StateIdle && c.deadlines.Load() <= 1:
		// It was quiet: nothing is refused.
	case c.book.leaving.Load() && c.read.Load() == 0:
		// The drain ended it.
	case c.late.Load():
		c.to.slow.Add(1)
	case from == http.StateActive && c.read.Load() >= c.to.maxHeader+headerSlop:
		c.to.large.Add(1)
	case from == http.StateActive && !c.gone.Load() && !c.book.leaving.Load():
		c.to.add(false) // net/http has answered 400 and closed, or a frame was wrong
	}
}

// How connections end in a drain. net/http's Shutdown closes connections that are
// idle at that moment, and loses the request that is on its way on one of them. So
// connections leave by themselves first, and Shutdown comes when none is left:
//
//   - leave: from now on each HTTP/1.1 connection ends with its next answer
//     (Connection: close), also one to a request that is in flight and has a body, or when it has been idle for
//     idleLeave. Each HTTP/2 connection gets a GOAWAY that still admits every stream.
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
		return c.accepted.Before(s.leftAt) && (one.opts.Main || c.isQuiet()) && !c.mayEnd()
	})
	for _, one := range s.all {
		if !one.opts.Main {
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

// closeSocket closes a listener and ends its server. Connections with a request in flight
// get until ctx ends, idle ones no time at all.
func (s *Sockets) closeSocket(ctx context.Context, one *Socket) {
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

// arrival is a handler that marks a connection when one of its requests has arrived. Its frame is
// small, because a stream waits on top of it for hours.
type arrival struct {
	book *book
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *arrival) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*watched); ok && c != nil {
		c.noteRequest(r)
		limits, _ := c.Conn.(*Conn) // nil without a gate
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

// IsLeaving reports whether the connection of a request ends with its answer, because a drain has begun since it came. The zero
// answer is that of HTTP/2, and of requests without a connection.
func IsLeaving(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*watched)
	return ok && c != nil && c.book.leaving.Load() && c.h2.Load() == nil
}

// Remote returns the address at the other end of the connection of a request, as its listener has it; nil for a request without one.
func Remote(ctx context.Context) net.Addr {
	if c, ok := ctx.Value(connKey{}).(*watched); ok && c != nil {
		return c.RemoteAddr()
	}
	return nil
}

// connKey is the key of a request's *watched in its context.
type connKey struct{}

// book has every open connection of one listener: a connection is in it from Accept to Close,
// whatever net/http thinks of its state.
type book struct {
	// leaving is set when the drain begins: from then on each HTTP/1.1 connection
	// ends with its next answer, and each HTTP/2 connection gets GOAWAY.
	leaving atomic.Bool
	// ending is set when the server shuts down. A connection that was accepted before may be found to be HTTP/2 only then.
	ending atomic.Bool

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

// firstLine looks at the first line of a connection, which comes in as many reads as the server likes.
type firstLine struct {
	// known is set once the line is complete, or cannot be a request line.
	known bool
	// spaces is how many there were, at most two. last is how the last word begins.
	spaces, size int
	last         [len("HTTP/")]byte
}

// isForeign takes the next bytes. It returns true if they complete a line of three words or more, as a request line
// is, whose last word names another protocol than HTTP. net/http answers what is merely malformed.
func (l *firstLine) isForeign(next []byte) bool {
	for _, b := range next {
		switch {
		case b == '\n':
			l.known = true
			return l.spaces == 2 && !strings.EqualFold(string(l.last[:]), "HTTP/")
		case b == ' ':
			l.spaces, l.size = min(l.spaces+1, 2), 0
			clear(l.last[:])
		case l.spaces == 0 && (b < 'A' || b > 'Z'): // TLS, or no method
			l.known = true
			return false
		case l.size < len(l.last):
			l.last[l.size] = b
			l.size++
		}
	}
	return false
}

// Address returns the name of an unauthenticated caller: the address of its
// connection without the port. An IPv4 address in its IPv6 form is returned as IPv4,
// and what is no address is returned unchanged. X-Forwarded-For and similar headers are
// ignored, because anyone can send them.
//
// A process behind a Unix socket is known by its user: "unix:uid=1000" of "unix:uid=1000,pid=7".
func Address(peer string) string {
	if user, _, ok := strings.Cut(peer, ",pid="); ok && strings.HasPrefix(user, "unix:") {
		return user
	}
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		host = peer
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is4() {
		return host // as it is written, without a copy: there is one form of IPv4 (no leading zeros)
	}
	return addr.Unmap().String()
}
