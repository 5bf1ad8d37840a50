// SPDX-License-Identifier: Apache-2.0

package peer

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

// GateOptions are the limits of a listener. Zero means no limit.
type GateOptions struct {
	// Most is the maximum number of connections, PerPeer the maximum number from one
	// address. An address is an IPv4 address, or an IPv6 /64 network, which is what one
	// host is assigned.
	Most, PerPeer int
	// ExemptLoopback exempts this machine's own addresses from PerPeer, because all
	// clients behind a local proxy share them. Peers without an address, those of Unix
	// sockets, are always exempt.
	ExemptLoopback bool
	// IdleAfter is how long a connection must be idle before a new one may replace it.
	IdleAfter time.Duration
	// Requests is the maximum number of requests of a connection. Age is how long a
	// connection accepts new requests, less a random part of up to a tenth, so that
	// connections opened together do not all end together. Grace is the maximum time that
	// the connection lasts after that.
	Requests   uint64
	Age, Grace time.Duration
	// Refused is called for each connection that is closed without a request being read.
	// It may be nil. It must not block.
	Refused func(Reason, net.Addr)
}

// Reason is the limit because of which a connection was refused.
type Reason string

// The reasons, named after the limits in the configuration.
const (
	Full     Reason = "max_connections"
	PeerFull Reason = "max_connections_per_peer"
)

// GateStats are counts since the start. Open is the current number of connections.
type GateStats struct {
	Open int
	// MostOfPeer is the largest number of open connections from one address.
	MostOfPeer int
	// Full and PeerFull count connections that were refused. Replaced counts idle
	// connections that were closed to make room.
	Full, PeerFull, Replaced uint64
	// Used counts connections that reached their maximum of requests, Aged those that
	// reached their age, and Cut those that were closed at the end of the grace period.
	Used, Aged, Cut uint64
}

// Gate enforces the limits of one listener. Make one with [NewGate].
type Gate struct {
	opts GateOptions

	mu    sync.Mutex
	open  map[*Conn]struct{}
	peers map[netip.Prefix]map[*Conn]struct{}

	full, peerFull, replaced, used, aged, cut atomic.Uint64
}

// NewGate returns a gate.
func NewGate(o GateOptions) *Gate {
	if o.Refused == nil {
		o.Refused = func(Reason, net.Addr) {}
	}
	return &Gate{opts: o, open: map[*Conn]struct{}{}, peers: map[netip.Prefix]map[*Conn]struct{}{}}
}

// Stats returns the counts. For a nil gate they are zero.
func (g *Gate) Stats() GateStats {
	if g == nil {
		return GateStats{}
	}
	s := GateStats{
		Full: g.full.Load(), PeerFull: g.peerFull.Load(), Replaced: g.replaced.Load(),
		Used: g.used.Load(), Aged: g.aged.Load(), Cut: g.cut.Load(),
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Open = len(g.open)
	for _, conns := range g.peers {
		s.MostOfPeer = max(s.MostOfPeer, len(conns))
	}
	return s
}

// admit returns a connection as the server gets it; nil where there is no room.
func (g *Gate) admit(raw net.Conn) *Conn {
	c := &Conn{carrier: carrier{raw}, gate: g, peer: g.peerOf(raw.RemoteAddr())}
	c.idle.Store(time.Now().UnixNano())
	victim, why := g.enter(c)
	if victim != nil {
		g.replaced.Add(1)
		_ = victim.Close()
	}
	switch why {
	case Full:
		g.full.Add(1)
	case PeerFull:
		g.peerFull.Add(1)
	default:
		c.age()
		return c
	}
	g.opts.Refused(why, raw.RemoteAddr())
	return nil
}

// enter puts a connection among those that are open, in the place of one that it
// returns, or says why there is no room.
func (g *Gate) enter(c *Conn) (victim *Conn, why Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if peers := g.peers[c.peer]; c.peer.IsValid() && g.opts.PerPeer > 0 && len(peers) >= g.opts.PerPeer {
		if victim = g.idlest(peers); victim == nil {
			return nil, PeerFull
		}
	} else if g.opts.Most > 0 && len(g.open) >= g.opts.Most {
		if victim = g.idlest(g.open); victim == nil {
			return nil, Full
		}
	}
	if victim != nil {
		g.drop(victim)
	}
	g.open[c] = struct{}{}
	if c.peer.IsValid() {
		if g.peers[c.peer] == nil {
			g.peers[c.peer] = map[*Conn]struct{}{}
		}
		g.peers[c.peer][c] = struct{}{}
	}
	return victim, ""
}

// sample is how many connections are looked at for one that is idle. Go begins to
// range over a map at a random place. Where most connections are idle, which is
// what an attack looks like, the sample has some; where next to none is, the bound
// is reached by work, and the new connection is refused.
const sample = 64

// idlest is the connection of a sample that has been idle for longest, and for long
// enough; nil where none has. mu is held.
func (g *Gate) idlest(of map[*Conn]struct{}) *Conn {
	var found *Conn
	least := time.Now().Add(-g.opts.IdleAfter).UnixNano()
	looked := 0
	for c := range of {
		if since := c.idle.Load(); since <= least && c.running.Load() == 0 {
			found, least = c, since
		}
		if looked++; looked == sample {
			break
		}
	}
	return found
}

// leave takes a connection out that has ended.
func (g *Gate) leave(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(c)
}

// drop is leave with mu held. It may come twice.
func (g *Gate) drop(c *Conn) {
	delete(g.open, c)
	if conns := g.peers[c.peer]; conns != nil {
		if delete(conns, c); len(conns) == 0 {
			delete(g.peers, c.peer)
		}
	}
}

// peerOf is what counts as one peer; not valid for those that are exempt.
func (g *Gate) peerOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || g.opts.PerPeer <= 0 {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if g.opts.ExemptLoopback && ip.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// Conn is a connection behind a gate.
type Conn struct {
	carrier

	gate *Gate
	peer netip.Prefix
	// running is how many requests have a handler; idle is since when there are none, in nanoseconds of
	// Unix time.
	running, idle atomic.Int64
	// requests is how many have begun; old is set when the connection has reached its age.
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

// carrier wraps a connection and keeps the optional methods of it.
type carrier struct{ net.Conn }

// CloseWrite lets a server half-close the connection, so that a client can read why it
// was refused.
func (c carrier) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn implements [syscall.Conn] if the underlying connection does.
func (c carrier) SyscallConn() (syscall.RawConn, error) { return rawOf(c.Conn) }

func rawOf(of any) (syscall.RawConn, error) {
	if raw, ok := of.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// wrapped is a listener whose connections are wrapped. It closes those for which wrap returns
// nil: in the kernel's queue they would block the connections behind them.
type wrapped struct {
	net.Listener

	wrap func(net.Conn) net.Conn
}

// Accept implements [net.Listener].
func (l *wrapped) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.wrap(conn); c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

// SyscallConn implements [syscall.Conn] if the underlying listener does. A drain uses it
// to inspect the listener's queue.
func (l *wrapped) SyscallConn() (syscall.RawConn, error) { return rawOf(l.Listener) }

// Listen returns a listener for the connections that the gate admits.
func (g *Gate) Listen(on net.Listener) net.Listener {
	return &wrapped{on, func(raw net.Conn) net.Conn {
		if c := g.admit(raw); c != nil {
			return c
		}
		return nil // no *Conn
	}}
}

const (
	// mostOperators and leastOperators bound the connections of a listener for
	// operators: probes, scrapes and a few people.
	mostOperators, leastOperators = 64, 8
	// ownFiles are what the process has open besides connections: listeners, the
	// record, files that are read again.
	ownFiles = 32
	// mostBackend bounds what is kept for the connections to the backend. Only
	// backends without HTTP/2 need one for each call.
	mostBackend = 1088
	// leastCallers is what the main listener gets however few files there are.
	leastCallers = 8
)

// FitFiles divides the file descriptors. It reserves some for the backend and the listeners for
// operators, so that probes are answered whatever callers do, and returns the maximum number of
// connections of the main listener, up to want, and of each other one. If files is 0, or 1<<31
// and more, the number is unknown or unlimited and every want fits.
func FitFiles(files uint64, want int) (callers, operators int) {
	if files == 0 || files >= 1<<31 {
		return want, mostOperators
	}
	n := int(files)
	operators = min(max(n/16, leastOperators), mostOperators)
	left := n - 2*operators - ownFiles - min(n/4, mostBackend)
	return max(min(left, want), leastCallers), operators
}
