// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"slices"
	"time"
)

// The times of NATS' Raft.
const (
	heartbeat     = time.Second
	minElection   = 4 * time.Second
	maxElection   = 9 * time.Second
	minCampaign   = 100 * time.Millisecond
	maxCampaign   = 800 * time.Millisecond
	lostQuorum    = 10 * time.Second
	keepEntries   = 4096 // of a log, before it is cut
	maxPerMessage = 256  // entries
)

type role uint8

const (
	follower role = iota
	candidate
	leading
)

// none is no server.
const none = -1

// machine is what a group replicates.
type machine interface {
	apply(g *group, e entry)
	clone() machine
}

// entry is one of a log. A nil op changes nothing.
type entry struct {
	term uint64
	op   any
}

// group is the part of one server in a Raft group.
type group struct {
	s       *server
	name    string // of the stream; empty for the list of streams
	peers   []int
	created time.Time

	// disk is what a restart keeps.
	disk
	// synced is what a loss of power keeps, kept what was written before the disk was full.
	synced, kept disk

	role        role
	leader      int
	leaderSince time.Time
	hadLeader   bool
	commit      uint64
	votes       map[int]bool
	next, match []uint64
	heard       []time.Time // a follower, by the leader
	sent        time.Time   // the last entries or heartbeat
	// deadline is when a follower campaigns, quorum when a leader counts its followers.
	deadline, quorum time.Time
	// led is the first entry of the leader's own term: once it is applied, the leader knows all that was acknowledged, and leads.
	led   uint64
	leads bool
	// proposals are those of the leader that were not applied yet.
	proposals proposals
}

// disk is the state of a group on the disk.
type disk struct {
	term     uint64
	vote     int
	base     uint64 // the entry before the log
	baseTerm uint64
	log      []entry
	applied  uint64
	machine  machine
}

func newGroup(s *server, name string, peers []int, m machine) *group {
	n := s.c.opts.Servers
	g := &group{s: s, name: name, peers: peers, disk: disk{vote: none, machine: m}, leader: none}
	g.next, g.match, g.heard = make([]uint64, n), make([]uint64, n), make([]time.Time, n)
	g.synced = g.disk
	g.synced.machine = m.clone()
	return g
}

// copied is a copy for the disk.
func (d disk) copied() disk {
	d.log = slices.Clone(d.log)
	d.machine = d.machine.clone()
	return d
}

// start begins anew from what is on the disk.
func (g *group) start() {
	g.created = g.s.c.now
	g.role, g.leader, g.leads, g.hadLeader = follower, none, false, false
	g.commit, g.votes, g.led = g.applied, nil, 0
	g.proposals = proposals{}
	clear(g.heard)
	g.waitForLeader(minElection, maxElection)
	if len(g.peers) == 1 {
		g.campaign()
	}
}

func (g *group) last() uint64 { return g.base + uint64(len(g.log)) }

// termAt is the term of an entry.
func (g *group) termAt(i uint64) uint64 {
	if i == g.base {
		return g.baseTerm
	}
	return g.log[i-g.base-1].term
}

func (g *group) waitForLeader(least, most time.Duration) {
	g.deadline = g.s.c.now.Add(least + time.Duration(g.s.c.rng.Int64N(int64(most-least))))
}

// leaderless reports whether this server knows for sure that there is no leader.
func (g *group) leaderless() bool {
	return g.leader == none && g.s.c.now.Sub(g.created) > lostQuorum
}

// raftMessages are messages of Raft from one server to another.
type raftMessages []raftMessage

type raftMessage struct {
	stream string
	kind   raftKind
	term   uint64
	// index and logTerm are the entry before the new ones, or the last of a candidate, or the last that a follower has.
	index, logTerm uint64
	entries        []entry
	commit         uint64
	ok             bool
	// snapshot replaces everything up to index.
	snapshot machine
}

type raftKind uint8

const (
	appendEntries raftKind = iota
	appended
	requestVote
	voted
	takeOver
)

func (k raftKind) String() string {
	return [...]string{"append", "appended", "vote?", "vote", "take over"}[k]
}

func (m raftMessages) what() string {
	if len(m) > 1 {
		return "heartbeats"
	}
	return m[0].kind.String() + " " + m[0].stream
}

func (m raftMessages) arrive(s *server, from int) {
	if !s.hasJetStream() {
		return
	}
	for _, one := range m {
		g := s.streams[one.stream]
		if one.stream == "" {
			g = s.meta
		}
		if g != nil {
			g.receive(from, one)
		}
	}
}

func (g *group) tell(to int, m raftMessage) {
	m.stream, m.term = g.name, g.term
	g.s.sendTo(to, raftMessages{m})
}

func (g *group) others() []int {
	return slices.DeleteFunc(slices.Clone(g.peers), func(i int) bool { return i == g.s.i })
}

// stepDown becomes a follower, of a newer term or of no leader.
func (g *group) stepDown(term uint64, leader int) {
	if term > g.term {
		g.term, g.vote = term, none
	}
	wasLeading := g.leads
	g.role, g.leader, g.votes, g.leads = follower, leader, nil, false
	g.hadLeader = g.hadLeader || leader != none
	g.proposals = proposals{}
	g.waitForLeader(minElection, maxElection)
	if wasLeading {
		g.unlisten()
	}
}

// campaign asks the others for their votes.
func (g *group) campaign() {
	if !g.write() {
		return
	}
	g.stepDown(g.term+1, none)
	g.role, g.vote, g.votes = candidate, g.s.i, map[int]bool{g.s.i: true}
	if g.won() {
		return
	}
	for _, to := range g.others() {
		g.tell(to, raftMessage{kind: requestVote, index: g.last(), logTerm: g.termAt(g.last())})
	}
}

// won becomes the leader if a majority has voted for it.
func (g *group) won() bool {
	if g.role != candidate || 2*len(g.votes) <= len(g.peers) {
		return false
	}
	now := g.s.c.now
	g.role, g.leader, g.leaderSince, g.hadLeader = leading, g.s.i, now, true
	g.quorum = now.Add(lostQuorum)
	for _, to := range g.others() {
		g.next[to], g.match[to] = g.last()+1, 0
	}
	g.led = g.last() + 1
	g.propose(nil)
	return true
}

// propose appends an entry at the leader. It returns false if the disk is full.
func (g *group) propose(op any) bool {
	isFull := !g.hasRoom() && (!g.s.c.opts.SyncLater || g.s.failing)
	if isFull && g.s.c.rng.IntN(2) == 0 || !isFull && !g.write() {
		g.s.disable()
		return false
	}
	g.log = append(g.log, entry{g.term, op})
	for _, to := range g.others() {
		g.replicate(to)
	}
	if isFull { // the followers have heard of it all the same
		g.log = slices.Clip(g.log[:len(g.log)-1])
		g.s.disable()
		return false
	}
	g.advance()
	for len(g.peers) == 1 && g.applied < g.commit { // one server stores a message before it looks at the next one
		g.applyNext()
	}
	return true
}

// replicate sends a follower what it lacks.
func (g *group) replicate(to int) { g.tell(to, g.lacking(to)) }

// lacking is what a follower lacks, perhaps nothing: then it is a heartbeat.
func (g *group) lacking(to int) raftMessage {
	m := raftMessage{kind: appendEntries, commit: g.commit}
	if g.next[to] <= g.base {
		m.snapshot, m.index, m.logTerm = g.machine.clone(), g.applied, g.termAt(g.applied)
		g.next[to] = g.applied + 1
		g.sent = g.s.c.now
		return m
	}
	m.index = g.next[to] - 1
	m.logTerm = g.termAt(m.index)
	end := min(g.last(), m.index+maxPerMessage)
	m.entries = slices.Clone(g.log[m.index-g.base : end-g.base])
	g.next[to] = end + 1
	g.sent = g.s.c.now
	return m
}

// advance commits what a majority has.
func (g *group) advance() {
	for i := g.last(); i > g.commit && g.termAt(i) == g.term; i-- {
		n := 1
		for _, to := range g.others() {
			if g.match[to] >= i {
				n++
			}
		}
		if 2*n > len(g.peers) {
			g.commit = i
			return
		}
	}
}

func (g *group) receive(from int, m raftMessage) {
	if m.term > g.term {
		leader := none
		if m.kind == appendEntries {
			leader = from
		}
		g.stepDown(m.term, leader)
	}
	switch m.kind {
	case requestVote:
		g.considerVote(from, m)
	case voted:
		if m.ok && m.term == g.term && g.role == candidate {
			g.votes[from] = true
			g.won()
		}
	case appendEntries:
		g.follow(from, m)
	case appended:
		g.confirmed(from, m)
	case takeOver:
		if m.term == g.term && g.role != leading {
			g.campaign()
		}
	}
}

func (g *group) considerVote(from int, m raftMessage) {
	mine := g.termAt(g.last())
	isBehind := m.logTerm < mine || m.logTerm == mine && m.index < g.last()
	ok := m.term == g.term && (g.vote == none || g.vote == from) && !isBehind && g.role != leading && g.write()
	if ok {
		g.vote = from
		g.waitForLeader(minElection, maxElection)
	}
	g.tell(from, raftMessage{kind: voted, ok: ok})
}

// follow takes the entries of a leader.
func (g *group) follow(from int, m raftMessage) {
	if m.term < g.term {
		g.tell(from, raftMessage{kind: appended, index: g.last()})
		return
	}
	if g.role == candidate || g.leader != from {
		g.stepDown(m.term, from)
	}
	g.waitForLeader(minElection, maxElection)
	if m.snapshot != nil && m.index > g.applied {
		if !g.write() {
			return
		}
		g.base, g.baseTerm, g.log = m.index, m.logTerm, nil
		g.applied, g.commit, g.machine = m.index, m.index, m.snapshot.clone()
		if g.name == "" {
			g.s.reconcile()
		}
	}
	if m.index > g.last() || m.index > g.base && g.termAt(m.index) != m.logTerm {
		g.tell(from, raftMessage{kind: appended, index: min(g.last(), m.index-1)})
		return
	}
	for i, e := range m.entries {
		at := m.index + 1 + uint64(i)
		if at <= g.base {
			continue
		}
		if at <= g.last() {
			if g.termAt(at) == e.term {
				continue
			}
			if at <= g.applied { // a majority has lost what it had acknowledged
				g.forget()
				g.tell(from, raftMessage{kind: appended})
				return
			}
			g.log = slices.Clip(g.log[:at-g.base-1])
		}
		if !g.write() {
			return
		}
		g.log = append(g.log, e)
	}
	matched := m.index + uint64(len(m.entries))
	if m.commit > g.commit {
		g.commit = max(g.commit, min(m.commit, matched))
	}
	g.tell(from, raftMessage{kind: appended, ok: true, index: matched})
}

// forget begins anew, for a leader that knows nothing of what was applied here.
func (g *group) forget() {
	g.base, g.baseTerm, g.log, g.applied, g.commit = 0, 0, nil, 0, 0
	if st := g.stream(); st != nil {
		g.machine = newStream(st.cfg, st.created)
		return
	}
	g.machine = newMeta()
	g.s.reconcile()
}

// confirmed notes what a follower has.
func (g *group) confirmed(from int, m raftMessage) {
	if g.role != leading || m.term != g.term {
		return
	}
	g.heard[from] = g.s.c.now
	if !m.ok {
		g.next[from] = max(1, min(g.next[from], m.index+1))
		g.replicate(from)
		return
	}
	g.match[from] = max(g.match[from], m.index)
	g.next[from] = max(g.next[from], g.match[from]+1)
	was := g.commit
	g.advance()
	if g.next[from] <= g.last() {
		g.replicate(from)
	}
	if g.commit > was { // the followers hear of it at once
		for _, to := range g.others() {
			if g.next[to] > g.last() {
				g.replicate(to)
			}
		}
	}
}

// applyNext applies the next committed entry.
func (g *group) applyNext() {
	g.applied++
	e := g.log[g.applied-g.base-1]
	if e.op != nil {
		g.machine.apply(g, e)
	}
	if g.role == leading && !g.leads && g.applied >= g.led {
		g.leads = true
		g.listen()
	}
	if drop := g.applied - g.base; drop > keepEntries {
		drop /= 2
		g.baseTerm = g.termAt(g.base + drop)
		g.log = slices.Clone(g.log[drop:])
		g.base += drop
	}
}

// quorate reports whether a majority was heard lately.
func (g *group) quorate() bool {
	n := 1
	for _, to := range g.others() {
		if g.s.c.now.Sub(g.heard[to]) < lostQuorum {
			n++
		}
	}
	return 2*n > len(g.peers)
}

// tick fires the timers of the group but for heartbeats.
func (g *group) tick() {
	now := g.s.c.now
	switch {
	case g.role == leading && !now.Before(g.quorum):
		g.quorum = now.Add(lostQuorum)
		if !g.quorate() {
			g.stepDown(g.term, none)
		}
	case g.role != leading && len(g.peers) > 1 && !now.Before(g.deadline):
		g.campaign()
		if g.role == candidate {
			g.waitForLeader(minElection, maxElection)
		}
	}
}

// handOver has a follower take over: one of those that are furthest.
func (g *group) handOver() {
	if g.role != leading || len(g.peers) == 1 {
		return
	}
	var best []int
	for _, to := range g.others() {
		if !g.s.linked[to] {
			continue
		}
		if len(best) > 0 && g.match[to] > g.match[best[0]] {
			best = nil
		}
		if len(best) == 0 || g.match[to] == g.match[best[0]] {
			best = append(best, to)
		}
	}
	if len(best) > 0 {
		g.tell(best[g.s.c.rng.IntN(len(best))], raftMessage{kind: takeOver})
	}
	g.stepDown(g.term, none)
}
