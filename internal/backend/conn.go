// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// greeting is what the first bytes from a peer look like.
type greeting uint32

const (
	greetNothing  greeting = iota // too few bytes came to tell
	greetHTTP1                    // "HTTP/"
	greetSettings                 // the SETTINGS frame that opens HTTP/2
	greetTLS                      // a TLS alert or handshake record
	greetOther
)

// conn is a connection that remembers how its peer began and how it broke.
type conn struct {
	net.Conn
	release func(*conn)
	once    sync.Once

	begin    [5]byte // the first bytes, filled by Read alone
	have     int
	greeting atomic.Uint32
	heard    chan struct{} // closed when the peer's beginning is known, or reading failed
	hear     sync.Once
	readErr  error         // set before heard is closed, if reading failed by then
	broken   atomic.Uint32 // brokeReading or brokeWriting, whichever came first
	used     atomic.Int64  // when bytes last moved, in nanoseconds of Unix time
	spare    atomic.Bool   // we close it because it is not needed
	forHTTP2 atomic.Bool   // it is of use only if the peer speaks HTTP/2
}

const (
	brokeReading uint32 = iota + 1
	brokeWriting
)

// Read announces the peer's first bytes when the reader calls it again. By then the reader
// has processed what it read first, such as the SETTINGS.
func (c *conn) Read(p []byte) (int, error) {
	if c.have == len(c.begin) {
		c.hear.Do(func() { close(c.heard) })
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.used.Store(time.Now().UnixNano())
	}
	if n > 0 && c.have < len(c.begin) {
		c.have += copy(c.begin[c.have:], p[:n])
		g := greetingOf(c.begin[:c.have])
		c.greeting.Store(uint32(g))
		if g != greetNothing && g != greetSettings {
			c.hear.Do(func() { close(c.heard) }) // there may be no next time
		}
	}
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			c.broken.CompareAndSwap(0, brokeReading)
		}
		c.hear.Do(func() {
			c.readErr = err
			close(c.heard)
		})
	}
	return n, err
}

// readError is why the peer's beginning never came, as far as that is known.
func (c *conn) readError() error {
	select {
	case <-c.heard:
		return c.readErr
	default:
		return nil
	}
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.used.Store(time.Now().UnixNano())
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.broken.CompareAndSwap(0, brokeWriting)
	}
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.release(c) })
	return err
}

func (c *conn) greeted() greeting {
	if c == nil {
		return greetNothing
	}
	return greeting(c.greeting.Load())
}

// NetConn returns the underlying connection.
func (c *conn) NetConn() net.Conn { return c.Conn }

// failedToWrite reports whether the first thing to fail was a write: the last
// part of what was to be sent never left.
func (c *conn) failedToWrite() bool {
	return c != nil && c.broken.Load() == brokeWriting
}

func greetingOf(b []byte) greeting {
	const (
		recordAlert     = 0x15 // RFC 8446, section 5.1
		recordHandshake = 0x16
		frameSettings   = 0x04 // RFC 9113, section 6.5; the type follows three bytes of length
	)
	switch {
	case len(b) < 5:
		return greetNothing // every one of them is longer
	case string(b) == "HTTP/":
		return greetHTTP1
	case (b[0] == recordAlert || b[0] == recordHandshake) && b[1] == 3:
		return greetTLS
	case b[3] == frameSettings:
		return greetSettings
	default:
		return greetOther
	}
}

// isLoss reports whether the end of a connection may be that of the backend: the
// peer ended it, or we did for another reason than that it is idle.
func (c *conn) isLoss(idle time.Duration) bool {
	// Timers and clocks are not exact; a connection that is closed that early for
	// idleness looks like one that was lost, which costs a question to the backend.
	const slack = time.Second
	switch {
	case c.greeted() == greetNothing, c.greeted() == greetOther, c.spare.Load(), c.forHTTP2.Load() && c.greeted() != greetSettings:
		return false // never was one, or not needed
	case c.broken.Load() != 0:
		return true
	case c.greeted() != greetSettings:
		return false // HTTP/1.1 closes connections after an answer where the server asks for that
	}
	return time.Since(time.Unix(0, c.used.Load())) < idle-min(slack, idle/2)
}

// connSet knows the open connections, so that Close leaves none behind, and tells
// of those that are lost.
type connSet struct {
	idle time.Duration // after which an unused connection is closed
	lost chan struct{} // holds a token when a connection was lost

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// adopt wraps nc. It returns nil, with nc closed, once the set is closed.
func (s *connSet) adopt(nc net.Conn) *conn {
	c := &conn{Conn: nc, release: s.forget, heard: make(chan struct{})}
	c.used.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return nil
	}
	if s.open == nil {
		s.open = make(map[*conn]struct{})
	}
	s.open[c] = struct{}{}
	return c
}

func (s *connSet) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.closed || s.lost == nil || !c.isLoss(s.idle) {
		return
	}
	select {
	case s.lost <- struct{}{}:
	default:
	}
}

func (s *connSet) closeAll() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}
