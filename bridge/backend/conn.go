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
	greetNothing  greeting = iota // no byte came
	greetHTTP1                    // "HTTP/"
	greetSettings                 // the SETTINGS frame that opens HTTP/2
	greetTLS                      // a TLS alert or handshake record
	greetOther
)

// hearingTime is how long a failed write waits for what the peer said before it
// hung up. Without it the failed write wins a race and hides the reason.
const hearingTime = 50 * time.Millisecond

// conn is a connection that remembers how its peer began and how it broke. A
// client that speaks HTTP/2 without asking first has no other typed sign that
// the peer does not understand it.
type conn struct {
	net.Conn
	encrypted bool // its bytes tell nothing
	release   func(*conn)
	once      sync.Once

	begin    [5]byte // the first bytes, filled by Read alone
	have     int
	greeting atomic.Uint32
	heard    chan struct{} // closed when the first Read returns
	hear     sync.Once
	broken   atomic.Uint32 // a breakage, the first there was
}

const (
	brokeReading uint32 = iota + 1
	brokeWriting
)

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.have < len(c.begin) {
		c.have += copy(c.begin[c.have:], p[:n])
		c.greeting.Store(uint32(greetingOf(c.begin[:c.have])))
	}
	if err != nil {
		c.broken.CompareAndSwap(0, brokeReading)
	}
	c.hear.Do(func() { close(c.heard) })
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, net.ErrClosed) {
		c.broken.CompareAndSwap(0, brokeWriting)
	}
	wait := time.NewTimer(hearingTime)
	defer wait.Stop()
	select {
	case <-c.heard:
	case <-wait.C:
	}
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.release(c) })
	return err
}

func (c *conn) greeted() greeting {
	if c == nil || c.encrypted {
		return greetNothing
	}
	return greeting(c.greeting.Load())
}

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
	case len(b) == 5 && string(b) == "HTTP/":
		return greetHTTP1
	case len(b) >= 2 && (b[0] == recordAlert || b[0] == recordHandshake) && b[1] == 3:
		return greetTLS
	case len(b) >= 4 && b[3] == frameSettings && b[0] != 'H':
		return greetSettings
	default:
		return greetOther
	}
}

// connSet knows the open connections, so that Close leaves none behind.
type connSet struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// adopt wraps nc. It returns nil, with nc closed, once the set is closed.
func (s *connSet) adopt(nc net.Conn, encrypted bool) *conn {
	c := &conn{Conn: nc, encrypted: encrypted, release: s.forget, heard: make(chan struct{})}
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
