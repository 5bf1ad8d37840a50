// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// meta is the machine of the list of streams and consumers.
type meta struct {
	streams map[string]*assignment
}

// assignment says who keeps a stream.
type assignment struct {
	cfg     jetstream.StreamConfig
	created time.Time
	peers   []int
	// first is the server that campaigns first. It answers the request.
	first     int
	reply     string
	consumers map[string]placed
}

// placed says where a consumer is.
type placed struct {
	cfg     jetstream.ConsumerConfig
	created time.Time
	server  int
	reply   string
}

func newMeta() *meta { return &meta{streams: map[string]*assignment{}} }

func (m *meta) clone() machine {
	out := newMeta()
	for name, a := range m.streams {
		copied := *a
		copied.consumers = maps.Clone(a.consumers)
		out.streams[name] = &copied
	}
	return out
}

func (g *group) metaState() *meta {
	m, _ := g.machine.(*meta)
	return m
}

// The entries of the list.
type (
	addStream    struct{ assignment }
	updateStream struct {
		cfg   jetstream.StreamConfig
		reply string
	}
	removeStream struct{ name, reply string }
	addConsumer  struct {
		stream string
		placed
	}
	removeConsumer struct{ stream, name, reply string }
)

func (m *meta) apply(g *group, e entry) {
	switch op := e.op.(type) {
	case addStream:
		m.addStream(g, op)
	case updateStream:
		m.updateStream(g.s, op)
	case removeStream:
		delete(m.streams, op.name)
		g.s.removeGroup(op.name)
		if g.role == leading {
			g.s.succeed(op.reply)
		}
	case addConsumer:
		m.addConsumer(g, op)
	case removeConsumer:
		m.removeConsumer(g.s, op)
	}
}

func (m *meta) addStream(g *group, op addStream) {
	if a := m.streams[op.cfg.Name]; a != nil { // another request was faster
		if g.role == leading {
			g.s.existing(op.reply, a, &op.cfg)
		}
		return
	}
	a := op.assignment
	a.consumers = map[string]placed{}
	m.streams[a.cfg.Name] = &a
	if slices.Contains(a.peers, g.s.i) {
		g.s.addGroup(&a)
	}
}

func (m *meta) updateStream(s *server, op updateStream) {
	a := m.streams[op.cfg.Name]
	if a == nil {
		return
	}
	a.cfg = op.cfg
	if g := s.streams[op.cfg.Name]; g != nil {
		g.stream().cfg = op.cfg
		if g.leads {
			s.send(op.reply, nil, encode(g.info(nil)))
		}
	}
}

func (m *meta) addConsumer(g *group, op addConsumer) {
	a := m.streams[op.stream]
	if a == nil {
		if g.role == leading {
			g.s.refuse(op.reply, errStreamNotFound)
		}
		return
	}
	if _, found := a.consumers[op.cfg.Name]; found {
		return
	}
	a.consumers[op.cfg.Name] = op.placed
	if op.server == g.s.i {
		g.s.send(op.reply, nil, encode(newConsumer(g.s, op.stream, op.placed).info()))
	}
}

func (m *meta) removeConsumer(s *server, op removeConsumer) {
	a := m.streams[op.stream]
	if a == nil {
		return
	}
	at, found := a.consumers[op.name]
	delete(a.consumers, op.name)
	if o := s.consumers[consumerID{op.stream, op.name}]; o != nil {
		o.end("409 Consumer Deleted")
	}
	if found && at.server == s.i {
		s.succeed(op.reply)
	}
}

// addGroup takes part in a stream.
func (s *server) addGroup(a *assignment) {
	g := newGroup(s, a.cfg.Name, a.peers, newStream(a.cfg, a.created))
	s.streams[a.cfg.Name], s.groupsInOrder = g, nil
	g.start()
	if a.first == s.i && g.role == follower && g.last() == 0 {
		g.waitForLeader(minCampaign, maxCampaign)
	}
}

// removeGroup leaves a stream.
func (s *server) removeGroup(name string) {
	for _, id := range s.consumerIDs() {
		if id.stream == name {
			s.consumers[id].end("409 Consumer Deleted")
		}
	}
	if g := s.streams[name]; g != nil {
		if g.leads {
			g.unlisten()
		}
		delete(s.streams, name)
		s.groupsInOrder = nil
	}
	delete(s.unusable, name)
}

// present are the groups of the streams in the list: those that the disk has, and new ones.
func (m *meta) present(s *server) map[string]*group {
	out := map[string]*group{}
	for _, name := range sortedKeys(m.streams) {
		a := m.streams[name]
		if s.unusable[name] {
			continue
		}
		if g := s.streams[name]; g != nil && g.stream().created.Equal(a.created) {
			out[name] = g
		} else if slices.Contains(a.peers, s.i) {
			out[name] = newGroup(s, name, a.peers, newStream(a.cfg, a.created))
		}
	}
	return out
}

// reconcile follows the list as another server has sent it whole.
func (s *server) reconcile() {
	m := s.meta.metaState()
	was := s.streams
	now := m.present(s)
	for _, name := range sortedKeys(was) {
		if now[name] != was[name] {
			s.removeGroup(name)
		}
	}
	s.streams, s.groupsInOrder = now, nil
	for _, name := range sortedKeys(now) {
		if was[name] != now[name] {
			now[name].start()
		}
	}
	for _, id := range s.consumerIDs() {
		if a := m.streams[id.stream]; a == nil || !isPlaced(a, id.name, s.i) {
			s.consumers[id].end("409 Consumer Deleted")
		}
	}
	s.recoverConsumers()
}

func isPlaced(a *assignment, name string, server int) bool {
	at, found := a.consumers[name]
	return found && at.server == server
}

// recoverConsumers makes those that are placed here and are not there.
func (s *server) recoverConsumers() {
	m := s.meta.metaState()
	for _, name := range sortedKeys(m.streams) {
		for _, consumer := range sortedKeys(m.streams[name].consumers) {
			if at := m.streams[name].consumers[consumer]; at.server == s.i && s.consumers[consumerID{name, consumer}] == nil {
				newConsumer(s, name, at)
			}
		}
	}
}

// existing answers a request for a stream that exists.
func (s *server) existing(reply string, a *assignment, want *jetstream.StreamConfig) {
	if !bytes.Equal(encode(a.cfg), encode(want)) {
		s.refuse(reply, &refusal{400, 10058, "stream name already in use with a different configuration"})
		return
	}
	subject := apiPrefix + "STREAM.INFO." + a.cfg.Name
	s.publish(nil, message{subject: subject, to: subject, reply: reply})
}
