// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/h2server"
)

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

// watched is a connection of which it is known how far the headers of its
// next request have come. Its counts are a handful of atomic operations for each
// request, and none of memory.
//
// Behind TLS the bytes are those of the records, which are a little more than the
// text in them: a request that is malformed close under the limit may count as
// too large there. On HTTP/2 many requests share a connection: the server tells of
// those that it refuses.
type watched struct {
	net.Conn

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
	// rested is when it last got idle, in nanoseconds of Unix time.
	rested atomic.Int64
	// h2 is set on HTTP/2 connections.
	h2 atomic.Pointer[h2server.Conn]
	// before is what had come when a request without a body reached its handler: what
	// comes after that, while it is answered, is of the next one.
	before atomic.Int64
}

func newWatched(conn net.Conn, to *Refused, book *book) *watched {
	return &watched{Conn: conn, to: to, book: book, accepted: time.Now()}
}

// Close implements [net.Conn].
func (c *watched) Close() error {
	c.book.remove(c)
	return c.Conn.Close()
}

// begin notes that a request has reached a handler.
func (c *watched) begin(r *http.Request) {
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

// CloseWrite lets net/http half-close, so that a caller can read why it was
// refused.
func (c *watched) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
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
