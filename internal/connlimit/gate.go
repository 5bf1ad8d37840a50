// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the limits of a listener. Zero means no limit.
type Options struct {
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

// Stats are counts since the start. Open is the current number of connections.
type Stats struct {
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

// Gate enforces the limits of one listener. Make one with [New].
type Gate struct {
	opts Options

	mu    sync.Mutex
	open  map[*Conn]struct{}
	peers map[netip.Prefix]map[*Conn]struct{}

	full, peerFull, replaced, used, aged, cut atomic.Uint64
}

// New returns a gate.
func New(o Options) *Gate {
	if o.Refused == nil {
		o.Refused = func(Reason, net.Addr) {}
	}
	return &Gate{opts: o, open: map[*Conn]struct{}{}, peers: map[netip.Prefix]map[*Conn]struct{}{}}
}

// Stats returns the counts. For a nil gate they are zero.
func (g *Gate) Stats() Stats {
	if g == nil {
		return Stats{}
	}
	s := Stats{
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
	c := &Conn{Conn: raw, gate: g, peer: g.peerOf(raw.RemoteAddr())}
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
		if since, idle := c.idleSince(); idle && since <= least {
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
