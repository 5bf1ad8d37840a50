// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// rounds is how many times within the write timeout a connection is looked at on
// which a write waits.
const rounds = 4

// Listener wraps l. Its connections close themselves if something waits to be written
// and makes no progress for timeout. stuck counts them and may be nil.
func Listener(l net.Listener, timeout time.Duration, stuck *atomic.Uint64) net.Listener {
	defaults.Fill(&timeout, defaults.WriteTimeout)
	return &listener{Listener: l, timeout: timeout, stuck: stuck}
}

type listener struct {
	net.Listener

	timeout time.Duration
	stuck   *atomic.Uint64
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, round: max(l.timeout/rounds, 1), stuck: l.stuck, reads: readPace{conn: c}}, nil
}

// SyscallConn implements [syscall.Conn] if the underlying listener does. A drain uses it
// to inspect the listener's queue.
func (l *listener) SyscallConn() (syscall.RawConn, error) {
	raw, ok := l.Listener.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return raw.SyscallConn()
}

// conn is a connection whose writes fail when they make no progress. It keeps a
// deadline of its own under that of the server: both hold.
type conn struct {
	net.Conn

	round time.Duration
	stuck *atomic.Uint64
	reads readPace

	mu sync.Mutex
	// server is the deadline that the server has set, own the end of the present
	// round, set the one that the connection has.
	server, own, set time.Time
	// ended is set once a write has been given up. No later write is tried: TLS
	// would wait as long again for its closing alert, and it would count twice.
	ended bool
}

// Write implements [net.Conn]. Each round costs a call of the runtime, so a write begins
// a new round only if the last one is more than half over. On a connection with frequent
// writes, Write usually only reads the clock.
func (c *conn) Write(p []byte) (int, error) {
	written, still, waiting := 0, 0, -1
	for {
		if !c.begin() {
			return written, os.ErrDeadlineExceeded
		}
		n, err := c.Conn.Write(p[written:])
		written += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		if c.isOver() {
			c.discard()
			return written, err
		}
		// The kernel wakes a writer late, when much of its buffer is free, so what
		// has been acknowledged counts too.
		before := waiting
		waiting = unacknowledged(c.Conn)
		if n > 0 || waiting >= 0 && before >= 0 && waiting < before {
			still = 0
			continue
		}
		if still++; still < rounds {
			continue
		}
		c.giveUp()
		return written, err
	}
}

// begin makes sure that a round is on. It reports false once a write has been
// given up.
func (c *conn) begin() bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if c.own.Sub(now) < c.round/2 {
		c.own = now.Add(c.round)
		_ = c.apply() // a connection without deadlines does not block
	}
	return true
}

// giveUp ends the connection for all writes, and counts it once.
func (c *conn) giveUp() {
	c.mu.Lock()
	first := !c.ended
	c.ended = true
	c.mu.Unlock()
	if first && c.stuck != nil {
		c.stuck.Add(1)
	}
	c.discard()
}

// isOver reports whether the server's own deadline has passed.
func (c *conn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.server.IsZero() && !time.Now().Before(c.server)
}

// discard drops what the kernel still holds for a peer that does not read: it
// would stay there for minutes after the connection is closed.
func (c *conn) discard() {
	if tcp, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it only saves memory
	}
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = t
	return c.apply()
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if err := c.reads.begin(); err != nil {
		return 0, err
	}
	defer c.reads.end()
	return c.Conn.Read(p)
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { return c.reads.setDeadline(t) }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// apply gives the connection the earlier of both deadlines; c.mu is held.
func (c *conn) apply() error {
	first := c.own
	if !c.server.IsZero() && (first.IsZero() || c.server.Before(first)) {
		first = c.server
	}
	if first.Equal(c.set) {
		return nil
	}
	c.set = first
	return c.Conn.SetWriteDeadline(first)
}

// CloseWrite lets net/http half-close the connection, so that a caller can read why it
// was refused.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn implements [syscall.Conn] if the underlying connection does.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return raw.SyscallConn()
}
