// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// End is how a server ends.
type End uint8

const (
	// Term is a clean end: the server hands its leaderships over and says goodbye.
	Term End = iota
	// Kill is kill -9: the disk keeps what was written.
	Kill
	// PowerLoss keeps what was synced. With SyncLater that can be two minutes old.
	PowerLoss
)

// Stop ends a server and its connections.
func (c *Cluster) Stop(server int, how End) {
	s := c.servers[server]
	if !s.running {
		return
	}
	if s.failing {
		s.disable()
	}
	if s.paused {
		s.paused = false
		if how == Term {
			s.fire()
		}
	}
	if how == Term && s.hasJetStream() {
		for _, id := range s.consumerIDs() {
			s.consumers[id].end("409 Server Shutdown")
		}
		for _, g := range s.groups() {
			g.handOver()
		}
	}
	for _, k := range s.conns() {
		k.close()
	}
	for j := range c.servers {
		s.sendTo(j, linkedDown{goodbye: how == Term})
		c.unlink(server, j)
		c.queues[j][server] = nil
		if how == PowerLoss {
			c.queues[server][j] = nil
			c.servers[j].linkLost(server)
		}
	}
	if how == PowerLoss && c.opts.SyncLater {
		for _, g := range s.groups() {
			g.disk = g.synced.copied()
		}
	}
	s.running = false
}

// unlink ends the way between two servers for what follows.
func (c *Cluster) unlink(i, j int) {
	c.servers[i].linked[j], c.servers[j].linked[i] = false, false
}

// linkLost has a server hear that a way is no more, after all that has arrived on it.
func (s *server) linkLost(from int) {
	if s.running && from != s.i {
		s.c.queues[from][s.i] = append(s.c.queues[from][s.i], linkedDown{})
	}
}

// link begins a way between two servers that run.
func (c *Cluster) link(i, j int) {
	a, b := c.servers[i], c.servers[j]
	if i == j || !a.running || !b.running || c.cut[i][j] || a.linked[j] {
		return
	}
	a.linked[j], b.linked[i] = true, true
	a.sendTo(j, linkedUp{maps.Clone(a.interest)})
	b.sendTo(i, linkedUp{maps.Clone(b.interest)})
}

// Start starts a server that was stopped, with the disk that it had.
func (c *Cluster) Start(server int) {
	s := c.servers[server]
	if s.running {
		return
	}
	s.running, s.paused, s.offline, s.failing, s.started = true, false, false, false, c.now
	s.ticks, s.syncs = c.now.Add(heartbeat), c.now.Add(syncEvery)
	s.interest, s.consumers, s.consumersInOrder = map[string]int{}, map[consumerID]*consumer{}, nil
	for j := range c.servers {
		s.remote[j], s.heard[j], s.gone[j] = nil, c.now, false
	}
	for _, subject := range apiSubjects() {
		s.want(subject, 1)
	}
	s.streams, s.groupsInOrder = s.meta.metaState().present(s), nil
	for _, g := range s.groups() {
		g.start()
	}
	s.recoverConsumers()
	for j := range c.servers {
		c.link(server, j)
	}
}

// Running reports whether a server runs, paused or not.
func (c *Cluster) Running(server int) bool { return c.servers[server].running }

// Pause stops a server as SIGSTOP does: it keeps its connections, its view and its data, and does nothing.
func (c *Cluster) Pause(server int) { c.servers[server].paused = c.servers[server].running }

// Resume lets a paused server go on with the view that it had. Its timers fire with the next [Cluster.Advance].
func (c *Cluster) Resume(server int) {
	s := c.servers[server]
	if !s.paused {
		return
	}
	s.paused = false
	for _, k := range s.conns() {
		k.parse()
	}
}

// Cut ends the way between two servers: what is on it is lost.
func (c *Cluster) Cut(i, j int) {
	if i == j || c.cut[i][j] {
		return
	}
	c.cut[i][j], c.cut[j][i] = true, true
	if !c.servers[i].linked[j] {
		return
	}
	c.queues[i][j], c.queues[j][i] = nil, nil
	c.unlink(i, j)
	c.servers[i].linkLost(j)
	c.servers[j].linkLost(i)
}

// Heal mends the way between two servers.
func (c *Cluster) Heal(i, j int) {
	c.cut[i][j], c.cut[j][i] = false, false
	c.link(i, j)
}

// Fill takes all room on the disk of a server. JetStream switches itself off there with the next write, until the server starts
// again. With SyncLater it acknowledges that write, which is lost: it is in memory when the server hears that there is no room.
func (c *Cluster) Fill(server int) {
	s := c.servers[server]
	s.full = true
	for _, g := range s.groups() {
		g.kept = g.disk.copied()
	}
}

// Free gives the room back.
func (c *Cluster) Free(server int) { c.servers[server].full = false }

// hasRoom reports whether the disk has room, where the group is on the disk.
func (g *group) hasRoom() bool {
	return !g.s.full || g.name != "" && g.stream().cfg.Storage == jetstream.MemoryStorage
}

// write reports whether a write counts, and switches JetStream off where it cannot. With SyncLater a server that has no room
// acknowledges one write before it hears of that.
func (g *group) write() bool {
	switch {
	case g.hasRoom():
		return true
	case g.s.c.opts.SyncLater && !g.s.failing:
		g.s.failing = true
		return true
	}
	g.s.disable()
	return false
}

// LoseAck loses the next acknowledgement of a write that a server sends.
func (c *Cluster) LoseAck(server int) { c.servers[server].loseAcks++ }

// StepClock sets the clock of a server forward, or back. Timers go on as before.
func (c *Cluster) StepClock(server int, by time.Duration) { c.servers[server].offset += by }

// Wipe removes what is on the disk of a server that is stopped. It reports whether it is.
func (c *Cluster) Wipe(server int) bool {
	s := c.servers[server]
	if s.running {
		return false
	}
	s.meta, s.streams, s.unusable, s.groupsInOrder = newGroup(s, "", c.all(), newMeta()), map[string]*group{}, nil, nil
	return true
}

// FlipBit damages what a server that is stopped has of a stream, so that NATS finds it: the server takes no part in the stream until
// it is wiped. It reports whether there is such a server and stream.
func (c *Cluster) FlipBit(server int, stream string) bool {
	s := c.servers[server]
	if s.running || s.streams[stream] == nil {
		return false
	}
	if s.unusable == nil {
		s.unusable = map[string]bool{}
	}
	s.unusable[stream] = true
	delete(s.streams, stream)
	s.groupsInOrder = nil
	return true
}

// Truncate damages what a server that is stopped has of a stream, so that NATS 2.15 does not find it: the newer half of the messages is
// missing there, and the server says so as if it were true. It reports whether there is such a server and stream.
func (c *Cluster) Truncate(server int, stream string) bool {
	s := c.servers[server]
	if s.running || s.streams[stream] == nil {
		return false
	}
	store := &s.streams[stream].stream().store
	all := sortedKeys(store.messages)
	for _, seq := range all[len(all)/2:] {
		store.remove(seq)
	}
	return true
}

// disable switches JetStream off.
func (s *server) disable() {
	if s.offline {
		return
	}
	for _, id := range s.consumerIDs() {
		s.consumers[id].end("409 Server Shutdown")
	}
	for _, subject := range apiSubjects() {
		s.want(subject, -1)
	}
	for _, g := range s.groups() {
		if s.full && s.c.opts.SyncLater && g.kept.machine != nil {
			g.disk = g.kept.copied()
		}
		if g.leads {
			g.unlisten()
		}
		g.leads, g.role, g.leader = false, follower, none
	}
	s.offline = true
}

// StepDown has the leader of a stream, or of the list of streams where the name is empty, hand over. It reports whether there is one.
func (c *Cluster) StepDown(stream string) bool {
	if at := c.Leader(stream); at >= 0 {
		c.servers[at].group(stream).handOver()
		return true
	}
	return false
}

// Leader returns the server that leads a stream by its own word and in the newest term, or -1.
func (c *Cluster) Leader(stream string) int {
	at, term := none, uint64(0)
	for i, s := range c.servers {
		if g := s.group(stream); g != nil && s.hasJetStream() && g.leads && g.term >= term {
			at, term = i, g.term
		}
	}
	return at
}

// Leading is the number of servers that lead a stream by their own word: a leader that is cut off does not know its successor.
func (c *Cluster) Leading(stream string) (n int) {
	for _, s := range c.servers {
		if g := s.group(stream); g != nil && s.hasJetStream() && g.leads {
			n++
		}
	}
	return n
}

// group is the part of the server in a group, or nil.
func (s *server) group(stream string) *group {
	if stream == "" {
		return s.meta
	}
	return s.streams[stream]
}

// timers calls f with the times of all timers.
func (s *server) timers(f func(time.Time)) {
	if !s.hasJetStream() {
		return
	}
	if s.c.clustered() {
		f(s.ticks)
	}
	if s.c.opts.SyncLater {
		f(s.syncs)
	}
	for _, g := range s.groups() {
		switch {
		case len(g.peers) == 1:
		case g.role == leading:
			f(g.quorum)
		default:
			f(g.deadline)
		}
		if at := g.nextExpiry(); !at.IsZero() && at.After(s.c.now) {
			f(at)
		}
	}
	for _, o := range s.consumers {
		o.timers(f)
	}
}

// fire fires the timers that are due.
func (s *server) fire() {
	now := s.c.now
	if s.failing {
		s.disable()
	}
	if !s.hasJetStream() {
		return
	}
	if s.c.opts.SyncLater && !now.Before(s.syncs) {
		s.syncs = now.Add(syncEvery)
		for _, g := range s.groups() {
			g.synced = g.disk.copied()
		}
	}
	for _, g := range s.groups() {
		g.tick()
	}
	if s.c.clustered() && !now.Before(s.ticks) {
		s.ticks = now.Add(heartbeat)
		s.heartbeats()
	}
	for _, id := range s.consumerIDs() {
		if o := s.consumers[id]; o != nil {
			o.tick()
		}
	}
}

// heartbeats sends each follower one message with the heartbeats of all groups that this server leads.
func (s *server) heartbeats() {
	all := map[int]raftMessages{}
	for _, g := range s.groups() {
		if g.role != leading || s.c.now.Sub(g.sent) < heartbeat {
			continue
		}
		for _, to := range g.others() {
			m := g.lacking(to)
			m.stream, m.term = g.name, g.term
			all[to] = append(all[to], m)
		}
	}
	for _, to := range sortedKeys(all) {
		s.sendTo(to, all[to])
	}
}
