// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Manager holds the sessions of one process. Make one with [New]; close it.
type Manager struct {
	opts   Options
	replay *replayBuffer
	// fleet is nil without a store: its fields belong to mu.
	fleet *fleet

	mu   sync.Mutex
	byID map[string]*Session
	// callers are those that have sessions.
	callers map[string]*holder
	unused  *list.List // of *Session, the longest unused first; those in use stand nowhere
	timer   *time.Timer
	closed  bool

	opened, expired, evicted, over uint64
}

// holder is what one caller has.
type holder struct {
	sessions int
	// unused are its idle sessions, the least recently used first.
	unused *list.List
	// account is what their streams keep.
	account *account
}

// New returns a Manager without sessions. It starts no goroutine; timers run only
// while something can expire.
func New(o Options) *Manager {
	o = o.withDefaults()
	return &Manager{
		opts: o, replay: newReplayBuffer(&o), fleet: newFleet(o.Store),
		byID: map[string]*Session{}, callers: map[string]*holder{}, unused: list.New(),
	}
}

// Open opens a session for a caller and starts its first use, which
// [Session.Release] ends. client is the client's declaration; the session keeps a
// copy. If the caller exceeds its share, its own least recently used session ends.
// At the limit, a session of the caller with the most sessions ends. The errors are
// [ErrFull], [ErrShare], [ErrClosed], [ErrLargeClient], and those of the feed and
// of the source of ids. The session ends with this process, and no other one knows of it.
func (m *Manager) Open(principal string, client *outriggerv1.RequestContext, origin correlate.Origin) (*Session, error) {
	return m.open(context.Background(), principal, client, origin, nil)
}

// OpenShared is Open for a session that other replicas may serve. Without a store it is
// Open. Another error is [ErrUnavailable].
func (m *Manager) OpenShared(ctx context.Context, principal string, client *outriggerv1.RequestContext, origin correlate.Origin) (*Session, error) {
	if m.fleet == nil {
		return m.Open(principal, client, origin)
	}
	return m.open(ctx, principal, client, origin, func(s *Session) error {
		s.shared = &sharedSession{key: keyOf(s.id), followAgain: make(chan struct{}, 1), isTeller: true}
		return m.share(ctx, s)
	})
}

func (m *Manager) open(ctx context.Context, principal string, client *outriggerv1.RequestContext, origin correlate.Origin, share func(*Session) error) (*Session, error) {
	kept, err := keptClient(client, m.opts.MaxClient)
	if err != nil {
		return nil, err
	}
	id, nonce, err := m.newID()
	if err != nil {
		return nil, err
	}
	s := &Session{
		manager: m, id: id, nonce: nonce, principal: principal, context: kept, origin: origin,
		level: outriggerv1.LogLevel_LOG_LEVEL_INFO, closed: make(chan struct{}), opened: time.Now(),
	}
	if share != nil {
		if err := share(s); err != nil {
			return nil, err
		}
	}
	if err := m.begin(s); err != nil {
		m.unshare(ctx, s)
		return nil, err
	}
	m.mu.Lock()
	m.opened++
	m.mu.Unlock()
	return s, nil
}

// begin takes a session in, which is in use then, and follows what its client is told of.
func (m *Manager) begin(s *Session) error {
	// Room first: the session that goes has a place in the feed, too.
	if err := m.admit(s); err != nil {
		return err
	}
	err := s.follow()
	if err != nil && m.remove(s.principal, s.id) != nil { // it may have been closed with all others
		s.close()
	}
	return err
}

// admit takes a session in, which is in use.
func (m *Manager) admit(s *Session) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	var gone *Session
	if s.shared == nil { // else the limits are those of all replicas
		var err error
		if gone, err = m.room(s.principal); err != nil {
			m.mu.Unlock()
			return err
		}
	}
	if gone != nil {
		m.forget(gone)
		m.evicted++
	}
	m.hold(s)
	m.mu.Unlock()
	if gone != nil {
		m.end(gone, Evicted)
	}
	return nil
}

// hold takes a session into memory, in use; m.mu is held.
func (m *Manager) hold(s *Session) {
	m.byID[s.id] = s
	h := m.callers[s.principal]
	if h == nil {
		h = &holder{unused: list.New(), account: &account{}}
		m.callers[s.principal] = h
	}
	h.sessions++
	s.uses, s.account = 1, h.account
	if s.shared != nil {
		m.fleet.attached[s.shared.key] = s
	}
}

// room is the session that has to end before a caller can have one more, nil where
// there is room; m.mu is held. A caller over its share gives its own. Where nothing
// is left for anybody, the caller that holds most gives one.
func (m *Manager) room(principal string) (*Session, error) {
	held := 0
	own := m.callers[principal]
	if own != nil {
		held = own.sessions
	}
	isFull := len(m.byID) >= m.opts.Max
	if !isFull && m.opts.Share.Allows(int64(held), 1, int64(len(m.byID)), int64(m.opts.Max)) {
		return nil, nil //nolint:nilnil // none has to go
	}
	if !isFull {
		m.over++
		if s := sessionAt(own.unused.Front()); s != nil {
			return s, nil
		}
		return nil, ErrShare
	}
	var most *holder
	for _, h := range m.callers {
		if h.unused.Len() > 0 && (most == nil || h.sessions > most.sessions || h.sessions == most.sessions && h == own) {
			most = h
		}
	}
	if most == nil {
		return nil, ErrFull
	}
	if own != most && most.sessions <= held+1 && own != nil && own.unused.Len() > 0 {
		most = own // as much as anybody has
	}
	if most.sessions == 1 && most != own {
		return m.oldest(), nil // everybody has one
	}
	return sessionAt(most.unused.Front()), nil
}

func sessionAt(e *list.Element) *Session {
	if e == nil {
		return nil
	}
	s, _ := e.Value.(*Session)
	return s
}

const (
	// idBytes is the randomness of an id: 192 bits, which cannot be guessed, in 32
	// characters that need no encoding in a header.
	idBytes = 24
	// nonceBytes tells the names that one session gives from those of another
	// with the same client, such as one before it on the same pipe.
	nonceBytes = 4
)

// newID returns what is random about a session.
func (m *Manager) newID() (id, nonce string, err error) {
	var raw [idBytes + nonceBytes]byte
	m.mu.Lock() // one reader of Rand at a time
	_, err = io.ReadFull(m.opts.Rand, raw[:])
	m.mu.Unlock()
	if err != nil {
		return "", "", fmt.Errorf("session: generate an id: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:idBytes]), hex.EncodeToString(raw[idBytes:]), nil
}

// Use finds a session of a caller and starts a use, which [Session.Release] ends. A session
// that is not in the memory of this replica is looked for in the store; origin is the scope of
// its client's ids then. The errors are [ErrUnknown], also for a session of another caller,
// and with a store [ErrUnavailable], [ErrClosed] and the cause of ctx.
func (m *Manager) Use(ctx context.Context, principal, id string, origin func() correlate.Origin) (*Session, error) {
	m.mu.Lock()
	s := m.byID[id]
	if s != nil && s.principal == principal {
		defer m.mu.Unlock()
		return m.use(s), nil
	}
	m.mu.Unlock()
	if s != nil || m.fleet == nil {
		return nil, ErrUnknown
	}
	return m.attach(ctx, principal, id, origin)
}

// use starts a use; m.mu is held.
func (m *Manager) use(s *Session) *Session {
	if s.uses++; s.place != nil {
		m.take(s)
	}
	return s
}

// release ends a use.
func (m *Manager) release(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.uses--; s.uses > 0 || m.byID[s.id] != s {
		return
	}
	s.since = time.Now()
	s.place, s.own = m.unused.PushBack(s), m.callers[s.principal].unused.PushBack(s)
	m.schedule()
}

// End ends a session at the client's request, at all replicas. The errors are [ErrUnknown]
// and [ErrUnavailable].
func (m *Manager) End(ctx context.Context, principal, id string) error {
	m.mu.Lock()
	s := m.byID[id]
	m.mu.Unlock()
	if s != nil && s.principal == principal && s.shared != nil {
		return m.delete(ctx, s.shared.key, Requested)
	}
	s = m.remove(principal, id)
	if s == nil {
		return ErrUnknown
	}
	m.end(s, Requested)
	return nil
}

// remove takes a session of a caller out; nil if there is none.
func (m *Manager) remove(principal, id string) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.byID[id]
	if s == nil || s.principal != principal {
		return nil
	}
	m.forget(s)
	return s
}

// end ends a session that has been taken out.
func (m *Manager) end(s *Session, why Reason) {
	s.close()
	if m.opts.Ended != nil {
		m.opts.Ended(Ended{Version: s.context.GetProtocolVersion(), Principal: s.principal, Why: why, Took: time.Since(s.opened)})
	}
}

// Close ends all sessions: their streams end, and questions are abandoned. Those that are
// shared go on at other replicas. It may be called more than once.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	if m.timer != nil {
		m.timer.Stop()
	}
	all := make([]*Session, 0, len(m.byID))
	for _, s := range m.byID {
		all = append(all, s)
		m.forget(s)
	}
	m.mu.Unlock()
	for _, s := range all {
		if s.shared != nil {
			s.close()
			continue
		}
		m.end(s, Shutdown)
	}
}

// Stats are statistics for operators.
type Stats struct {
	// Sessions is the current number of sessions, at all replicas, Held of those in the memory
	// of this one, Kept the size of their replay buffers in bytes. The other counters start at 0.
	Sessions, Held           int
	Kept                     int
	Opened, Expired, Evicted uint64
	// Over counts how often a caller exceeded its share.
	Over uint64
}

// Stats returns the statistics.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions := len(m.byID)
	if m.fleet != nil {
		sessions += len(m.fleet.known) - len(m.fleet.attached)
	}
	return Stats{Sessions: sessions, Held: len(m.byID), Kept: m.replay.size(), Opened: m.opened, Expired: m.expired, Evicted: m.evicted, Over: m.over}
}

// oldest is the longest unused session.
func (m *Manager) oldest() *Session {
	return sessionAt(m.unused.Front())
}

// forget takes a session out; m.mu is held. A map that was large does not give
// its memory back by itself.
func (m *Manager) forget(s *Session) {
	delete(m.byID, s.id)
	if s.place != nil {
		m.take(s)
	}
	if s.shared != nil {
		delete(m.fleet.attached, s.shared.key)
		delete(m.fleet.dirty, s)
	}
	h := m.callers[s.principal]
	if h.sessions--; h.sessions == 0 {
		delete(m.callers, s.principal)
	}
	if len(m.byID) == 0 {
		m.byID, m.callers = map[string]*Session{}, map[string]*holder{}
	}
}

// take takes a session from those that are unused; m.mu is held.
func (m *Manager) take(s *Session) {
	m.unused.Remove(s.place)
	m.callers[s.principal].unused.Remove(s.own)
	s.place, s.own = nil, nil
}

// schedule sets the timer to the moment when the longest unused session expires;
// m.mu is held.
func (m *Manager) schedule() {
	s := m.oldest()
	if s == nil || m.closed {
		return
	}
	wait := time.Until(s.since.Add(m.opts.Idle))
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, m.expire)
		return
	}
	m.timer.Reset(wait)
}

// expire ends what has been unused for too long.
func (m *Manager) expire() {
	m.mu.Lock()
	var gone []*Session
	for s := m.oldest(); s != nil && time.Since(s.since) >= m.opts.Idle; s = m.oldest() {
		m.forget(s)
		if s.shared == nil {
			m.expired++
		}
		gone = append(gone, s)
	}
	m.schedule()
	m.mu.Unlock()
	for _, s := range gone {
		if s.shared != nil {
			s.close() // it may be in use elsewhere; its record says when it ends
			continue
		}
		m.end(s, Expired)
	}
}
