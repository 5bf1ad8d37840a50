// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
)

// dialTimeout is how long a connection is tried to a server that says nothing.
const dialTimeout = 2 * time.Second

// wire is one connection of a replica to a server, as TCP has it: bytes arrive in their order, or not at all after the connection
// broke. What one side has sent is on the way until the scheduler delivers it.
type wire struct {
	w       *world
	replica *replica
	server  int
	// number is its place among all of the simulation; id is that of the model, once it is open.
	number, id int
	open       bool

	mu sync.Mutex
	// toServer and toClient are on the way. ended: the server has closed it, after toClient.
	toServer, toClient []byte
	ended              bool
	// arrived is what the client can read. broken is what it finds behind that.
	arrived []byte
	broken  error
	// closed: the client has closed it.
	closed   bool
	deadline time.Time
	// changed is closed, and another put into its place, when a reader or a dialer should look again.
	changed chan struct{}
}

// dialer is the network of a replica.
type dialer struct{ r *replica }

// Dial implements [nats.CustomDialer].
func (d dialer) Dial(_, address string) (net.Conn, error) {
	server := 0
	for natsmodel.Address(server) != address {
		if server++; server == servers {
			return nil, fmt.Errorf("nothing is at %s", address)
		}
	}
	c := d.r.w.connect(d.r, server)
	timer := time.NewTimer(dialTimeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		open, broken, changed := c.open, c.broken, c.changed
		c.mu.Unlock()
		switch {
		case broken != nil:
			return nil, broken
		case open:
			return c, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			_ = c.Close()
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// wake has readers look again. c.mu is held.
func (c *wire) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Read implements [net.Conn].
func (c *wire) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return 0, net.ErrClosed
		}
		if len(c.arrived) > 0 {
			n := copy(p, c.arrived)
			c.arrived = c.arrived[n:]
			c.mu.Unlock()
			return n, nil
		}
		broken, deadline, changed := c.broken, c.deadline, c.changed
		c.mu.Unlock()
		if broken != nil {
			return 0, broken
		}
		var over <-chan time.Time
		var timer *time.Timer
		if !deadline.IsZero() {
			left := time.Until(deadline)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			timer = time.NewTimer(left)
			over = timer.C
		}
		select {
		case <-changed:
		case <-over:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// Write implements [net.Conn].
func (c *wire) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.broken != nil && !errors.Is(c.broken, io.EOF):
		return 0, c.broken
	}
	c.toServer = append(c.toServer, p...)
	c.w.active()
	return len(p), nil
}

// Close implements [net.Conn].
func (c *wire) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.wake()
		c.w.active()
	}
	return nil
}

// SetDeadline implements [net.Conn].
func (c *wire) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (c *wire) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.wake()
	return nil
}

// SetWriteDeadline implements [net.Conn]. Writes do not wait.
func (c *wire) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements [net.Conn].
func (c *wire) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 100), Port: c.number}
}

// RemoteAddr implements [net.Conn].
func (c *wire) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(c.server+1)), Port: 4222}
}

// connect begins a connection.
func (w *world) connect(r *replica, server int) *wire {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wires++
	c := &wire{w: w, replica: r, server: server, number: w.wires, changed: make(chan struct{})}
	if r.dead || w.closing {
		c.broken = syscall.ENETUNREACH
		return c
	}
	w.live = append(w.live, c)
	w.active()
	return c
}

// establish opens a connection at the server.
func (w *world) establish(c *wire) {
	id, ok := w.cluster.Open(c.server)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		c.broken = syscall.ECONNREFUSED
	}
	c.id, c.open = id, ok
	c.wake()
}

// reset breaks a connection: what is on the way is lost.
func (w *world) reset(c *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open {
		w.cluster.Close(c.id)
	}
	c.toServer, c.toClient, c.ended = nil, nil, false
	if c.broken == nil {
		c.broken = syscall.ECONNRESET
	}
	c.wake()
}

// collect takes what the servers have sent, and forgets connections that are over.
func (w *world) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = slices.DeleteFunc(w.live, func(c *wire) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open && c.broken == nil {
			c.toClient = append(c.toClient, w.cluster.Output(c.id)...)
			c.ended = c.ended || w.cluster.Closed(c.id)
		}
		if c.closed && c.open && len(c.toServer) == 0 {
			w.cluster.Close(c.id)
			return true
		}
		return c.broken != nil || c.closed && !c.open
	})
}

// deliverToServer delivers what a client has sent, all or the first part of it.
func (w *world) deliverToServer(c *wire, most int) preview {
	c.mu.Lock()
	data := c.toServer[:min(most, len(c.toServer))]
	c.toServer = c.toServer[len(data):]
	if len(c.toServer) == 0 {
		c.toServer = nil
	}
	c.mu.Unlock()
	w.note(data)
	w.cluster.Input(c.id, data)
	return preview(data)
}

// deliverToClient delivers what a server has sent.
func (w *world) deliverToClient(c *wire, most int) preview {
	c.mu.Lock()
	defer c.mu.Unlock()
	data := c.toClient[:min(most, len(c.toClient))]
	w.note(data)
	c.arrived = append(c.arrived, data...)
	if c.toClient = c.toClient[len(data):]; len(c.toClient) == 0 {
		c.toClient = nil
		if c.ended {
			c.broken = io.EOF
		}
	}
	c.wake()
	return preview(data)
}

// preview prints the beginning of bytes, and how many there are.
type preview []byte

// String implements [fmt.Stringer].
func (p preview) String() string {
	const most = 100
	first, _, _ := bytes.Cut(p, []byte("\r\n"))
	return fmt.Sprintf("%d bytes, %q", len(p), first[:min(most, len(first))])
}
