// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection behind a gate.
type Conn struct {
	net.Conn

	gate *Gate
	peer netip.Prefix
	// running requests have a handler. Where there are none, idle is since when, in
	// nanoseconds of Unix time.
	running, idle atomic.Int64
	// requests have begun; old is set when the connection has reached its age.
	requests atomic.Uint64
	old      atomic.Bool

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// age starts the clock of a connection.
func (c *Conn) age() {
	most := c.gate.opts.Age
	if most <= 0 {
		return
	}
	most -= time.Duration(rand.Int64N(int64(most)/10 + 1)) //nolint:gosec // it spreads load
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.timer = time.AfterFunc(most, c.expire)
	}
}

// expire is called at the end of a connection's age, and at the end of its grace.
func (c *Conn) expire() {
	if c.old.Swap(true) {
		c.gate.cut.Add(1)
		_ = c.Close()
		return
	}
	c.gate.aged.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.gate.opts.Grace > 0 {
		c.timer.Reset(c.gate.opts.Grace)
	}
}

// Begin notes that a handler has a request, until [Conn.End]. It reports whether the
// connection must end with this response. A nil Conn has no gate and continues.
func (c *Conn) Begin() bool {
	if c == nil {
		return false
	}
	c.running.Add(1)
	n, most := c.requests.Add(1), c.gate.opts.Requests
	if n == most {
		c.gate.used.Add(1)
	}
	return most > 0 && n >= most || c.old.Load()
}

// End notes that a handler has returned. The rest of a request body that the handler did
// not read may still occupy the connection for a while. No other connection waits for that.
func (c *Conn) End() {
	if c != nil {
		c.idle.Store(time.Now().UnixNano())
		c.running.Add(-1)
	}
}

// idleSince is since when no handler has had a request, and whether that is so.
func (c *Conn) idleSince() (int64, bool) {
	since := c.idle.Load()
	return since, c.running.Load() == 0
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if first && c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	err := c.Conn.Close()
	if first {
		c.gate.leave(c)
	}
	return err
}

// CloseWrite lets a server half-close the connection, so that a client can read why it
// was refused.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn implements [syscall.Conn] if the underlying connection does.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return rawOf(c.Conn) }

func rawOf(of any) (syscall.RawConn, error) {
	if raw, ok := of.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
