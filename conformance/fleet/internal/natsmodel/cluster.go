// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Options configure a [Cluster]. Zero fields take the defaults.
type Options struct {
	// Servers is their number: 1, or an odd number from 3 on. Default 1.
	Servers int
	// MaxPayload bounds the payload of a message with its headers. Default 8 MiB.
	MaxPayload int
	// SyncLater is without `sync_interval: always`: servers write to the disk every two minutes, as NATS does by default.
	SyncLater bool
	// Stored is called with each message that a server stores, in the order of its stream. It must not change them. Nil is not called.
	Stored func(server int, m Stored)
}

// Stored is a message that a server has stored.
type Stored struct {
	Stream, Subject string
	Sequence        uint64
	Header, Data    []byte
	TTL             time.Duration // zero is none
}

const (
	version           = "2.15.2"
	clusterName       = "model"
	defaultMaxPayload = 8 << 20
	// syncEvery is the default sync_interval of NATS.
	syncEvery = 2 * time.Minute
	// offlineAfter is how long a server that did not say goodbye counts as online.
	offlineAfter = 150 * time.Second
)

// Cluster is NATS servers with JetStream. Make one with [New]. It is for one goroutine.
type Cluster struct {
	opts    Options
	now     time.Time
	rng     *rand.Rand
	servers []*server
	conns   map[int]*conn
	opened  int // connections so far
	// queues has what one server has sent to another, in its order.
	queues [][][]routed
	cut    [][]bool
}

// server is one of them.
type server struct {
	c    *Cluster
	i    int
	name string

	running, paused bool
	// full: the disk has no room. offline: JetStream has found that, and is off until the server starts again.
	full, offline bool
	failing       bool          // it has acknowledged a write for which there is no room, and does not know yet
	offset        time.Duration // of its clock
	started       time.Time
	ticks         time.Time // the next heartbeat
	syncs         time.Time // the next write to the disk, with SyncLater
	loseAcks      int
	// unusable are streams in whose files the server finds a fault.
	unusable map[string]bool

	// interest are the subjects that something on this server wants, remote those that others have said.
	interest map[string]int
	remote   []map[string]int
	linked   []bool
	// peers is when another server was heard last, and gone whether it said goodbye.
	heard []time.Time
	gone  []bool

	meta      *group
	streams   map[string]*group
	consumers map[consumerID]*consumer
	// groupsInOrder and consumersInOrder are what groups and consumerIDs return; nil after a change.
	groupsInOrder    []*group
	consumersInOrder []consumerID
}

// New returns a cluster whose servers have started.
func New(o Options, now time.Time, rng *rand.Rand) *Cluster {
	if o.Servers == 0 {
		o.Servers = 1
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = defaultMaxPayload
	}
	c := &Cluster{opts: o, now: now, rng: rng, conns: map[int]*conn{}}
	c.queues, c.cut = make([][][]routed, o.Servers), make([][]bool, o.Servers)
	for i := range o.Servers {
		c.queues[i], c.cut[i] = make([][]routed, o.Servers), make([]bool, o.Servers)
		s := &server{
			c: c, i: i, name: fmt.Sprintf("n%d", i), remote: make([]map[string]int, o.Servers),
			linked: make([]bool, o.Servers), heard: make([]time.Time, o.Servers), gone: make([]bool, o.Servers),
		}
		s.meta = newGroup(s, "", c.all(), newMeta())
		s.streams = map[string]*group{}
		c.servers = append(c.servers, s)
	}
	for i := range c.servers {
		c.Start(i)
	}
	return c
}

// all are the numbers of all servers.
func (c *Cluster) all() []int {
	out := make([]int, c.opts.Servers)
	for i := range out {
		out[i] = i
	}
	return out
}

// Servers is the number of servers.
func (c *Cluster) Servers() int { return len(c.servers) }

// Name is the name of a server.
func (c *Cluster) Name(server int) string { return c.servers[server].name }

// clustered: there is more than one server.
func (c *Cluster) clustered() bool { return len(c.servers) > 1 }

// wall is the time by the clock of the server.
func (s *server) wall() time.Time { return s.c.now.Add(s.offset) }

// works reports whether the server does anything now.
func (s *server) works() bool { return s.running && !s.paused }

// hasJetStream reports whether JetStream runs on it.
func (s *server) hasJetStream() bool { return s.running && !s.offline }

// groups are those that the server takes part in, in a fixed order. The caller must not change them.
func (s *server) groups() []*group {
	if !s.hasJetStream() {
		return nil
	}
	if s.groupsInOrder == nil {
		s.groupsInOrder = []*group{s.meta}
		for _, name := range sortedKeys(s.streams) {
			s.groupsInOrder = append(s.groupsInOrder, s.streams[name])
		}
	}
	return s.groupsInOrder
}

// Open opens a connection of a client to a server. It returns false if nothing listens there. A paused server takes connections and
// says nothing.
func (c *Cluster) Open(server int) (id int, ok bool) {
	s := c.servers[server]
	if !s.running {
		return 0, false
	}
	c.opened++
	k := &conn{s: s, id: c.opened}
	c.conns[k.id] = k
	k.hello()
	return k.id, true
}

// Input passes what the client of a connection has sent.
func (c *Cluster) Input(id int, data []byte) {
	k := c.conns[id]
	if k == nil || k.closed {
		return
	}
	k.in = append(k.in, data...)
	if k.s.works() {
		k.parse()
	}
}

// Output returns what the server has sent since the last call. The bytes are the caller's.
func (c *Cluster) Output(id int) []byte {
	k := c.conns[id]
	if k == nil || k.s.paused && !k.closed {
		return nil
	}
	out := k.out
	k.out = nil
	return out
}

// Closed reports whether the server has closed a connection. What it sent before can still be read with [Cluster.Output].
func (c *Cluster) Closed(id int) bool {
	k := c.conns[id]
	return k == nil || k.closed
}

// Close closes a connection from the client's side, and forgets it.
func (c *Cluster) Close(id int) {
	if k := c.conns[id]; k != nil {
		k.close()
		delete(c.conns, id)
	}
}

// connsOf are the open connections of a server in their order.
func (s *server) conns() []*conn {
	var out []*conn
	for _, k := range s.c.conns {
		if k.s == s && !k.closed {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b *conn) int { return a.id - b.id })
	return out
}

// Kind is the kind of a [Step].
type Kind uint8

// The kinds of steps.
const (
	// Route delivers the oldest message of one server to another.
	Route Kind = iota
	// Apply has a server apply the next committed entry of a stream, or of the list of streams. The leader acknowledges it.
	Apply
	// Deliver delivers a message to a consumer.
	Deliver
	// Expire has a server remove a message whose lifetime is over, or the leader of a stream propose the marker of its end.
	Expire
)

// Step is something that can happen next. Steps are comparable.
type Step struct {
	Kind Kind
	// Server is where it happens; From is where a routed message comes from.
	Server, From int
	// Stream is empty for the list of streams.
	Stream, Consumer string
	// What is the kind of a routed message.
	What string
}

// String is a stable name.
func (s Step) String() string {
	switch s.Kind {
	case Route:
		return fmt.Sprintf("n%d>n%d %s", s.From, s.Server, s.What)
	case Apply:
		return fmt.Sprintf("n%d apply %s", s.Server, s.Stream)
	case Deliver:
		return fmt.Sprintf("n%d deliver %s/%s", s.Server, s.Stream, s.Consumer)
	case Expire:
		return fmt.Sprintf("n%d expire %s", s.Server, s.Stream)
	}
	return "unknown"
}

// Pending lists the steps that can happen now, in a fixed order.
func (c *Cluster) Pending() []Step {
	var out []Step
	for to, s := range c.servers {
		if !s.works() {
			continue
		}
		for from := range c.servers {
			if q := c.queues[from][to]; len(q) > 0 {
				out = append(out, Step{Kind: Route, Server: to, From: from, What: q[0].what()})
			}
		}
		for _, g := range s.groups() {
			if g.applied < g.commit {
				out = append(out, Step{Kind: Apply, Server: to, Stream: g.name})
			}
			if g.canExpire() {
				out = append(out, Step{Kind: Expire, Server: to, Stream: g.name})
			}
		}
		for _, id := range s.consumerIDs() {
			if s.consumers[id].canDeliver() {
				out = append(out, Step{Kind: Deliver, Server: to, Stream: id.stream, Consumer: id.name})
			}
		}
	}
	return out
}

// Do does a step, if it can still happen.
func (c *Cluster) Do(step Step) {
	s := c.servers[step.Server]
	if !s.works() {
		return
	}
	g := s.streams[step.Stream]
	if step.Stream == "" {
		g = s.meta
	}
	switch step.Kind {
	case Route:
		q := c.queues[step.From][step.Server]
		if len(q) == 0 {
			return
		}
		c.queues[step.From][step.Server] = q[1:]
		s.heard[step.From] = c.now
		q[0].arrive(s, step.From)
	case Apply:
		if g != nil && s.hasJetStream() && g.applied < g.commit {
			g.applyNext()
		}
	case Expire:
		if g != nil && s.hasJetStream() && g.canExpire() {
			g.expire()
		}
	case Deliver:
		if o := s.consumers[consumerID{step.Stream, step.Consumer}]; o != nil && o.canDeliver() {
			o.deliver()
		}
	}
}

// Settle does pending steps, the first ones first, until there is none.
func (c *Cluster) Settle() {
	for steps := c.Pending(); len(steps) > 0; steps = c.Pending() {
		c.Do(steps[0])
	}
}

// Next returns when the next timer is due, or false without one.
func (c *Cluster) Next() (time.Time, bool) {
	var next time.Time
	for _, s := range c.servers {
		if s.works() {
			s.timers(func(at time.Time) {
				if next.IsZero() || at.Before(next) {
					next = at
				}
			})
		}
	}
	return next, !next.IsZero()
}

// Advance passes the time, and fires the timers that are due.
func (c *Cluster) Advance(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
	for _, s := range c.servers {
		if s.works() {
			s.fire()
		}
	}
}
