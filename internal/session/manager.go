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

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/correlate"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Manager holds the sessions that one process serves. Make one with [New]; close it.
type Manager struct {
	opts   Options
	replay *replayBuffer
	ended  endedIDs

	mu    sync.Mutex
	byKey map[key]*Session
	// callers are those that have sessions.
	callers map[string]*holder
	unused  *list.List // of *Session, the longest unused first; those in use are not in it
	timer   *time.Timer
	closed  bool

	opened, expired, tooOld, evicted uint64
}

// holder has the sessions of one caller.
type holder struct {
	sessions int
	// unused are its idle sessions, the least recently used first.
	unused *list.List
	// account has the bytes that their streams keep.
	account *account
}

// New returns a Manager without sessions. It starts no goroutine; timers run only while something can expire.
func New(o Options) *Manager {
	o = o.withDefaults()
	if o.Sealer == nil {
		o.Sealer = keys.NewSealer(keys.SealerOptions{})
	}
	return &Manager{
		opts:   o,
		replay: &replayBuffer{keep: o.Keep, most: int64(o.MaxKept), rule: o.Share, ended: list.New(), owners: map[*account]struct{}{}},
		ended:  endedIDs{age: o.Age},
		byKey:  map[key]*Session{}, callers: map[string]*holder{}, unused: list.New(),
	}
}

// Open opens a session for a caller and starts its first use, which [Session.Release] ends. client is the client's declaration;
// the session keeps a copy. At the limit, the least recently used session of the caller with the most sessions leaves memory.
// The errors are [ErrFull], [ErrClosed], [ErrLargeClient], and those of the feed and of the source of ids. The session ends
// with this process, or once it has not been used for the idle time.
func (m *Manager) Open(principal string, client *outriggerv1.RequestContext, origin correlate.Origin) (*Session, error) {
	s := m.newSession(principal)
	s.origin = origin
	var err error
	s.context, err = keptClient(client, func(c *outriggerv1.RequestContext) bool { return proto.Size(c) <= m.opts.MaxClient })
	if err != nil {
		return nil, err
	}
	if s.id, err = m.random(s); err != nil {
		return nil, err
	}
	return m.adopt(s)
}

// OpenSealed is Open for a session that any process with the same keys serves, by its id. lists are those of which the client
// learns that it hears when they change.
func (m *Manager) OpenSealed(principal string, client *outriggerv1.RequestContext, origin correlate.Origin, lists Lists) (*Session, error) {
	s := m.newSession(principal)
	s.origin, s.declared, s.expires = origin, lists, s.opened.Add(m.opts.Age)
	if m.opts.Replicas != nil {
		s.home = m.opts.Replicas.Self
	}
	if _, err := m.random(s); err != nil {
		return nil, err
	}
	if err := s.seal(client); err != nil {
		return nil, err
	}
	return m.adopt(s)
}

func (m *Manager) newSession(principal string) *Session {
	return &Session{
		manager: m, principal: principal, level: outriggerv1.LogLevel_LOG_LEVEL_INFO, opened: time.Now(),
		followAgain: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// adopt takes a session in that was opened here, and follows what its client learns of.
func (m *Manager) adopt(s *Session) (*Session, error) {
	s.isNew, s.key = true, keyOf(s.id)
	// Room first: the session that goes has a place in the feed, too.
	if _, err := m.admit(s); err != nil {
		return nil, err
	}
	if err := s.hear(false); err != nil {
		m.forget(s) // it may have been closed with all others
		s.close()
		return nil, err
	}
	m.mu.Lock()
	m.opened++
	m.mu.Unlock()
	return s, nil
}

// admit takes a session into memory, in use, and returns it, or the one that has the same id and was faster.
func (m *Manager) admit(s *Session) (*Session, error) {
	m.mu.Lock()
	if is := m.byKey[s.key]; is != nil {
		defer m.mu.Unlock()
		return m.use(is), nil
	}
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	var gone *Session
	if len(m.byKey) >= m.opts.Max {
		if gone = m.victim(s.principal); gone == nil {
			m.mu.Unlock()
			return nil, ErrFull
		}
		m.drop(gone)
		m.evicted++
	}
	m.byKey[s.key] = s
	h := m.callers[s.principal]
	if h == nil {
		h = &holder{unused: list.New(), account: &account{}}
		m.callers[s.principal] = h
	}
	h.sessions++
	s.uses, s.account = 1, h.account
	m.mu.Unlock()
	if gone != nil {
		if gone.isHome() && gone.hasLearned() {
			m.ended.add(gone.key) // its client has to know that this is gone
		}
		m.endSession(gone, true)
	}
	return s, nil
}

// victim is the session that makes room for one more of a caller: of the caller that has most of those with idle ones. It is
// nil where all are in use; m.mu is held.
func (m *Manager) victim(principal string) *Session {
	own, held := m.callers[principal], 0
	if own != nil {
		held = own.sessions
	}
	var most *holder
	for _, h := range m.callers {
		if h.unused.Len() > 0 && (most == nil || h.sessions > most.sessions || h.sessions == most.sessions && h == own) {
			most = h
		}
	}
	switch {
	case most == nil:
		return nil
	case own != most && own != nil && own.unused.Len() > 0 && most.sessions <= held+1:
		most = own // as much as any
	case own != most && most.sessions == 1:
		return at[Session](m.unused.Front()) // all have one
	}
	return at[Session](most.unused.Front())
}

// at is the value of a list element; nil for no element.
func at[T any](e *list.Element) *T {
	if e == nil {
		return nil
	}
	v, _ := e.Value.(*T)
	return v
}

const (
	// idBytes is the randomness of an id that is not sealed: 192 bits, which cannot be guessed.
	idBytes = 24
	// nonceBytes tells the names that one session gives from those of another with the same client, such as one before it on the
	// same pipe.
	nonceBytes = 4
)

// random gives a session its nonce, and returns an id for one that is not sealed.
func (m *Manager) random(s *Session) (id string, err error) {
	var raw [idBytes + nonceBytes]byte
	m.mu.Lock() // one reader of Rand at a time
	_, err = io.ReadFull(m.opts.Rand, raw[:])
	m.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("session: generate an id: %w", err)
	}
	s.nonce = hex.EncodeToString(raw[idBytes:])
	return base64.RawURLEncoding.EncodeToString(raw[:idBytes]), nil
}

// Use finds a session of a caller by its id and starts a use, which [Session.Release] ends. One that is not in the memory of
// this process is opened from its id. The errors are [ErrUnknown], also for a session of another caller, [ErrFull] and
// [ErrClosed].
func (m *Manager) Use(ctx context.Context, principal, id string) (*Session, error) {
	s, err := m.find(principal, id)
	if err == nil {
		s.catchUp(ctx)
	}
	return s, err
}

// find is Use for sessions that this process knows.
func (m *Manager) find(principal, id string) (*Session, error) {
	if len(id) > maxID {
		return nil, ErrUnknown
	}
	k := keyOf(id)
	s, err := m.held(k, principal)
	if s == nil && err == nil {
		s, err = m.attach(k, principal, id)
	}
	return s, err
}

// held starts a use of a session in memory; nil for none. The error is [ErrUnknown].
func (m *Manager) held(k key, principal string) (*Session, error) {
	m.mu.Lock()
	s := m.byKey[k]
	switch {
	case s == nil:
		m.mu.Unlock()
		return nil, nil //nolint:nilnil // it may be opened from its id
	case s.principal != principal:
		m.mu.Unlock()
		return nil, ErrUnknown
	case !s.isOver(time.Now()):
		defer m.mu.Unlock()
		return m.use(s), nil
	}
	m.tooOld++
	isIdle := s.uses == 0
	if isIdle {
		m.drop(s)
	}
	m.mu.Unlock()
	if isIdle {
		m.endSession(s, false)
	}
	return nil, ErrUnknown
}

// use starts a use; m.mu is held.
func (m *Manager) use(s *Session) *Session {
	if s.uses++; s.place != nil {
		m.removeUnused(s)
	}
	return s
}

// attach opens a session from its id.
func (m *Manager) attach(k key, principal, id string) (*Session, error) {
	if m.ended.has(k) {
		return nil, ErrUnknown
	}
	s, err := m.open(principal, id)
	if err != nil {
		return nil, err
	}
	if _, err := m.random(s); err != nil {
		return nil, err
	}
	s.origin, s.key = m.opts.Origin(), k
	if s, err = m.admit(s); err == nil && m.ended.has(k) { // meanwhile
		s.Release()
		m.left(k)
		return nil, ErrUnknown
	}
	return s, err
}

// release ends a use.
func (m *Manager) release(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.uses--; s.uses > 0 || m.byKey[s.key] != s {
		return
	}
	s.since = time.Now()
	s.place, s.own = m.unused.PushBack(s), m.callers[s.principal].unused.PushBack(s)
	if m.timer == nil || m.unused.Len() == 1 {
		m.schedule(m.opts.Idle)
	}
}

// End ends a session at the client's request: its id is refused from then on, with [Replicas] at all of them. The errors are
// [ErrUnknown] and [ErrUnavailable].
func (m *Manager) End(ctx context.Context, s *Session) error {
	if !s.expires.IsZero() {
		if err := m.endEverywhere(ctx, s.key); err != nil {
			return err
		}
		m.ended.add(s.key)
	}
	if !m.forget(s) {
		return ErrUnknown
	}
	m.endSession(s, false)
	return nil
}

// left drops a session that another replica ended.
func (m *Manager) left(k key) {
	m.ended.add(k)
	m.mu.Lock()
	s := m.byKey[k]
	m.mu.Unlock()
	if s == nil || !m.forget(s) {
		return
	}
	m.endSession(s, false)
	if m.opts.Cut != nil {
		m.opts.Cut(s.origin)
	}
}

// forget takes a session out of memory, and reports whether it was there.
func (m *Manager) forget(s *Session) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey[s.key] != s {
		return false
	}
	m.drop(s)
	return true
}

// endSession ends what this process has of a session that was taken out of memory. The end is reported where the session was opened.
func (m *Manager) endSession(s *Session, isEvicted bool) {
	s.close()
	if s.isNew && m.opts.Ended != nil {
		m.opts.Ended(Ended{Version: s.context.GetProtocolVersion(), Principal: s.principal, Evicted: isEvicted, Took: time.Since(s.opened)})
	}
}

// Close ends all sessions: their streams end, and questions are abandoned. Other processes may go on with them. It may be
// called more than once.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	if m.timer != nil {
		m.timer.Stop()
	}
	all := make([]*Session, 0, len(m.byKey))
	for _, s := range m.byKey {
		all = append(all, s)
		m.drop(s)
	}
	m.mu.Unlock()
	for _, s := range all {
		m.endSession(s, false)
	}
}

// Stats are statistics for operators.
type Stats struct {
	// Sessions is the number of sessions that are in use, or were within the idle time, Held of those in memory, Kept the size
	// of their replay buffers in bytes. The other counters start at 0: Expired counts sessions that left memory because they
	// were not used, TooOld ids that were refused for their age.
	Sessions, Held                   int
	Kept                             int
	Opened, Expired, TooOld, Evicted uint64
}

// Stats returns the statistics.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions, now := len(m.byKey), time.Now()
	for e := m.unused.Front(); e != nil && now.Sub(at[Session](e).since) >= m.opts.Idle; e = e.Next() {
		sessions--
	}
	return Stats{
		Sessions: sessions, Held: len(m.byKey), Kept: int(m.replay.bytes.Load()),
		Opened: m.opened, Expired: m.expired, TooOld: m.tooOld, Evicted: m.evicted,
	}
}

// LongLived returns the sessions that [Stats.Sessions] counts, in no order.
func (m *Manager) LongLived() []*adminv1.LongLived {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var out []*adminv1.LongLived
	for _, s := range m.byKey {
		if s.place != nil && now.Sub(s.since) >= m.opts.Idle {
			continue
		}
		one := &adminv1.LongLived{
			Id: s.key.text()[:shownID], Caller: s.principal, Detail: s.context.GetProtocolVersion(), Began: timestamppb.New(s.opened), State: "in use",
		}
		if s.place != nil {
			one.State, one.Ends = "idle", timestamppb.New(s.since.Add(m.opts.Idle))
		}
		if !s.expires.IsZero() {
			one.Ends = timestamppb.New(s.expires)
		}
		out = append(out, one)
	}
	return out
}

// shownID is how many characters operators see of the digest of an id.
const shownID = 8

// drop takes a session out; m.mu is held. A map that was large does not give its memory back by itself.
func (m *Manager) drop(s *Session) {
	delete(m.byKey, s.key)
	if s.place != nil {
		m.removeUnused(s)
	}
	h := m.callers[s.principal]
	if h.sessions--; h.sessions == 0 {
		delete(m.callers, s.principal)
	}
	if len(m.byKey) == 0 {
		m.byKey, m.callers = map[key]*Session{}, map[string]*holder{}
	}
}

// removeUnused takes a session from those that are unused; m.mu is held.
func (m *Manager) removeUnused(s *Session) {
	m.unused.Remove(s.place)
	m.callers[s.principal].unused.Remove(s.own)
	s.place, s.own = nil, nil
}

// schedule sets the timer; m.mu is held.
func (m *Manager) schedule(wait time.Duration) {
	switch {
	case m.closed:
	case m.timer == nil:
		m.timer = time.AfterFunc(wait, m.expire)
	default:
		m.timer.Reset(wait)
	}
}

// expire takes what has been unused for too long out of memory. What a session has learned stays at its home for as long as its
// id is valid: only its streams of changes end.
func (m *Manager) expire() {
	m.mu.Lock()
	now := time.Now()
	var gone, quiet []*Session
	wait := m.opts.Idle
	for e := m.unused.Front(); e != nil; {
		s := at[Session](e)
		e = e.Next()
		if idle := now.Sub(s.since); idle < m.opts.Idle {
			wait = m.opts.Idle - idle
			break
		}
		switch {
		case !s.expires.IsZero() && s.hasLearned() && !s.isOver(now):
			quiet = append(quiet, s)
		default:
			m.drop(s)
			m.expired++
			gone = append(gone, s)
		}
	}
	if m.unused.Len() > 0 {
		m.schedule(wait)
	}
	m.mu.Unlock()
	for _, s := range quiet {
		s.sleep()
	}
	for _, s := range gone {
		m.endSession(s, false)
	}
}
