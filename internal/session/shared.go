// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Replicas share sessions by a [Store]. A replica holds a session in memory once a request of
// it came here, and follows its record from then on.

const (
	// touches is how often the lifetime of a session in use is extended within its idle time.
	touches = 8
	// minTouch is the shortest time between two extensions.
	minTouch = 250 * time.Millisecond
	// saveAttempts is how often a write is tried again because another replica was faster.
	saveAttempts = 8
	// maxCandidates is how many sessions of other replicas are tried to make room, and how many
	// are ended at most.
	maxCandidates = 8
	// keyBytes of a hash are enough for a key: 192 bits, as the id has.
	keyBytes = 24
)

// keyOf is what the store knows a session by: whoever can look into the store must not be
// able to use the session.
func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:keyBytes])
}

// fleet is what a manager knows of the sessions of all replicas; its fields belong to the
// manager's lock.
type fleet struct {
	store Store
	// known are all sessions, callers how many each caller has, attached those that are in the
	// memory of this replica; all by key.
	known    map[string]*known
	callers  map[string]int
	attached map[string]*Session
	// dirty are the sessions whose record must be written, owed the streams with events that
	// are neither stored nor read.
	dirty map[*Session]struct{}
	owed  map[*Stream]struct{}
	// wake has Run look at them.
	wake chan struct{}
	// ending are the sessions that this replica deletes now, and why: it may hear of the end of
	// one before the store has answered it.
	ending map[string]Reason
}

// known is what a replica knows of a session that may be anywhere.
type known struct {
	principal, version, writtenBy string
	opened, touched               time.Time
	revision                      uint64
}

func newFleet(s Store) *fleet {
	if s == nil {
		return nil
	}
	return &fleet{
		store: s, known: map[string]*known{}, callers: map[string]int{}, attached: map[string]*Session{},
		dirty: map[*Session]struct{}{}, owed: map[*Stream]struct{}{}, wake: make(chan struct{}, 1),
		ending: map[string]Reason{},
	}
}

// IsShared reports whether sessions are kept for all replicas.
func (m *Manager) IsShared() bool { return m.fleet != nil }

// touchEvery is the time between two extensions of a lifetime.
func (m *Manager) touchEvery() time.Duration { return max(m.opts.Idle/touches, minTouch) }

// lifetime is that of a record: until a session is idle for too long, and some more,
// because it is not extended with every use.
func (m *Manager) lifetime() time.Duration { return m.opts.Idle + 2*m.touchEvery() }

// share stores a session that was opened here.
func (m *Manager) share(ctx context.Context, s *Session) error {
	if err := m.makeSharedRoom(ctx, s.principal); err != nil {
		return err
	}
	sh := s.shared
	sh.record = Record{
		Key: sh.key, Lifetime: m.lifetime(), Principal: s.principal, Context: s.context, Opened: s.opened, Level: s.level,
		WrittenBy: m.fleet.store.Self(), Teller: m.fleet.store.Self(), Catalog: m.catalog(),
	}
	revision, err := m.fleet.store.Create(ctx, sh.record)
	if err != nil {
		return err
	}
	sh.record.Revision, sh.saved = revision, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.note(sh.record)
	return nil
}

// unshare deletes the record of a session that could not be opened after all, whose place
// another one may need. If the store cannot, the record expires.
func (m *Manager) unshare(ctx context.Context, s *Session) {
	if s.shared == nil || m.fleet.store.Delete(context.WithoutCancel(ctx), s.shared.key) != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.drop(s.shared.key)
}

// catalog is the fingerprint of the catalog that clients are told of now.
func (m *Manager) catalog() string {
	if m.opts.Catalog == nil {
		return ""
	}
	return m.opts.Catalog()
}

// makeSharedRoom ends a session where a caller can have no other one. Where there are more than the
// limit, because replicas opened sessions at the same moment, it ends more of them, up to
// maxCandidates. The errors are [ErrFull], [ErrShare] and those of the store.
func (m *Manager) makeSharedRoom(ctx context.Context, principal string) error {
	inUse := map[string]bool{}
	ended := 0
	for {
		key, replica, err := m.sharedRoom(principal, inUse)
		if key == "" && ended > 0 {
			return nil // one has gone for this one; the others beyond the limit are in use
		}
		if err != nil || key == "" {
			return err
		}
		if replica != m.fleet.store.Self() {
			// Only the replica that holds it knows whether it is in use.
			idle, err := m.ask(ctx, replica, Message{Key: key, MayEnd: true})
			if err != nil && !errors.Is(err, ErrNoReplica) {
				return err
			}
			if inUse[key] = err == nil && !idle; inUse[key] && len(inUse) < maxCandidates {
				continue
			}
			if inUse[key] && ended > 0 {
				return nil
			}
			if inUse[key] {
				return ErrFull
			}
		}
		if err := m.delete(ctx, key, Evicted); err != nil {
			return err
		}
		if ended++; ended == maxCandidates || !m.isFull() {
			return nil
		}
	}
}

// isFull reports whether there are as many sessions as may be, or more.
func (m *Manager) isFull() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.fleet.known) >= m.opts.Max
}

// ask sends a message to another replica. Only one that has no lease any more is gone: where
// there is one and nobody hears, the replica is cut off, which is [ErrUnavailable].
func (m *Manager) ask(ctx context.Context, replica string, msg Message) (bool, error) {
	is, err := m.fleet.store.Ask(ctx, replica, msg)
	if !errors.Is(err, ErrNoReplica) {
		return is, err
	}
	alive, err := m.fleet.store.Alive(ctx, replica)
	switch {
	case err != nil:
		return false, err
	case alive:
		return false, ErrUnavailable
	}
	return false, ErrNoReplica
}

// sharedRoom is the key of the session that has to end before a caller can have one more, and
// the replica that wrote it last; "" where there is room. Those in use are left out.
func (m *Manager) sharedRoom(principal string, inUse map[string]bool) (key, replica string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.fleet
	held, total := f.callers[principal], len(f.known)
	isFull := total >= m.opts.Max
	if !isFull && m.opts.Share.Allows(int64(held), 1, int64(total), int64(m.opts.Max)) {
		return "", "", nil
	}
	may, none := func(k *known) bool { return k.principal == principal }, ErrShare
	if isFull {
		may, none = m.fromFullest(principal, held), ErrFull
	} else if len(inUse) == 0 {
		m.over++
	}
	key = m.idlest(may, inUse)
	if key == "" {
		return "", "", none
	}
	return key, f.known[key].writtenBy, nil
}

// fromFullest are the sessions of the caller that has most, where nobody can have another one;
// m.mu is held.
func (m *Manager) fromFullest(principal string, held int) func(*known) bool {
	most := held
	for _, n := range m.fleet.callers {
		most = max(most, n)
	}
	switch {
	case held > 0 && most <= held+1:
		return func(k *known) bool { return k.principal == principal }
	case most == 1: // everybody has one
		return func(*known) bool { return true }
	}
	return func(k *known) bool { return m.fleet.callers[k.principal] == most }
}

// idlest is the session that has not been used for the longest time, as far as is known here,
// of those that are not in use; m.mu is held.
func (m *Manager) idlest(may func(*known) bool, inUse map[string]bool) string {
	var found string
	var when time.Time
	for key, k := range m.fleet.known {
		last := k.touched
		s := m.fleet.attached[key]
		switch {
		case !may(k), inUse[key], s != nil && s.uses > 0:
			continue
		case s != nil && s.since.After(last):
			last = s.since
		}
		if found == "" || last.Before(when) {
			found, when = key, last
		}
	}
	return found
}

// note remembers a record; m.mu is held.
func (f *fleet) note(r Record) {
	k := f.known[r.Key]
	if k == nil {
		k = &known{principal: r.Principal, version: r.Context.GetProtocolVersion(), opened: r.Opened}
		f.known[r.Key] = k
		f.callers[r.Principal]++
	}
	if r.Revision >= k.revision {
		k.revision, k.writtenBy, k.touched = r.Revision, r.WrittenBy, time.Now()
	}
}

// drop forgets a session; m.mu is held.
func (f *fleet) drop(key string) *known {
	k := f.known[key]
	if k == nil {
		return nil
	}
	delete(f.known, key)
	if f.callers[k.principal]--; f.callers[k.principal] == 0 {
		delete(f.callers, k.principal)
	}
	return k
}

// attach gets a session of another replica, or of an earlier process, into memory, and
// starts its first use. The errors are [ErrUnknown], [ErrUnavailable], [ErrClosed] and the
// cause of ctx.
func (m *Manager) attach(ctx context.Context, principal, id string, origin func() correlate.Origin) (*Session, error) {
	if len(id) != base64.RawURLEncoding.EncodedLen(idBytes) {
		return nil, ErrUnknown
	}
	r, err := m.fleet.store.Get(ctx, keyOf(id))
	switch {
	case err != nil:
		return nil, err
	case r.Principal != principal:
		return nil, ErrUnknown
	}
	_, nonce, err := m.newID()
	if err != nil {
		return nil, err
	}
	s := &Session{
		manager: m, id: id, nonce: nonce, principal: principal, context: r.Context, origin: origin(),
		level: levelOf(r.Level), declared: r.Declared, closed: make(chan struct{}), opened: r.Opened,
		shared: &sharedSession{key: r.Key, record: r, followAgain: make(chan struct{}, 1)},
	}
	for _, w := range r.Watched {
		s.watched = append(s.watched, w.URI)
		s.watchedBytes += len(w.URI)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if is := m.byID[id]; is != nil { // another request was faster
		return m.use(is), nil
	}
	m.fleet.note(r)
	m.hold(s)
	return s, nil
}

// Run follows the sessions of all replicas until ctx ends, and writes what is due. Without a
// store it returns at once.
func (m *Manager) Run(ctx context.Context) {
	if m.fleet == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.keepUp(ctx)
	}()
	m.fleet.store.Run(ctx, Observer{Changed: m.changed, Gone: m.gone, Reset: m.reset, Message: m.message})
	<-done
}

// changed hears of a record.
func (m *Manager) changed(r Record) {
	m.mu.Lock()
	m.fleet.note(r)
	s := m.fleet.attached[r.Key]
	m.mu.Unlock()
	if s != nil {
		s.adopt(r)
	}
}

// gone hears of the end of a session. One that is in use here, and whose lifetime ended while
// the store was away, is stored again.
func (m *Manager) gone(key string, expired bool) {
	if !expired {
		m.left(key, Requested, false)
		return
	}
	m.mu.Lock()
	s := m.fleet.attached[key]
	lives := s != nil && !m.closed && (s.uses > 0 || time.Since(s.since) < m.opts.Idle)
	m.mu.Unlock()
	if lives {
		s.restore()
		return
	}
	m.left(key, Expired, false)
}

// reset hears that the store has lost everything. The sessions that are here are stored
// again.
func (m *Manager) reset() {
	m.mu.Lock()
	f := m.fleet
	f.known, f.callers = map[string]*known{}, map[string]int{}
	here := make([]*Session, 0, len(f.attached))
	for _, s := range f.attached {
		here = append(here, s)
	}
	m.mu.Unlock()
	for _, s := range here {
		s.restore()
	}
}

// message hears from another replica.
func (m *Manager) message(msg Message) bool {
	m.mu.Lock()
	s := m.fleet.attached[msg.Key]
	mayEnd := s == nil || s.uses == 0
	m.mu.Unlock()
	switch {
	case msg.MayEnd:
		return mayEnd
	case s == nil:
		return false
	case msg.Answer != nil:
		return s.answered(msg.Answer.ID, reply{result: msg.Answer.Result, isErr: msg.Answer.IsError, failed: msg.Answer.Failed}) == nil
	case msg.Cancel != nil:
		if m.opts.Cancel != nil {
			m.opts.Cancel(s.origin, msg.Cancel.RequestID, msg.Cancel.Reason)
		}
		return true
	case msg.Moved != nil:
		s.moved(*msg.Moved)
		return true
	}
	return false
}

// keepUp writes what is due until ctx ends.
func (m *Manager) keepUp(ctx context.Context) {
	every := min(time.Second, m.touchEvery())
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.fleet.wake:
		case <-timer.C:
		}
		if m.fleet.store.IsAvailable() {
			m.write(ctx)
		}
		timer.Reset(every)
	}
}

// write writes records that must be written, extends lifetimes, and stores events that were
// not.
func (m *Manager) write(ctx context.Context) {
	m.mu.Lock()
	now := time.Now()
	for _, s := range m.fleet.attached {
		if s.shared.isDue(now, m.touchEvery(), s.uses > 0, s.since) {
			m.fleet.dirty[s] = struct{}{}
		}
	}
	due, owed := slices.Collect(maps.Keys(m.fleet.dirty)), slices.Collect(maps.Keys(m.fleet.owed))
	clear(m.fleet.dirty)
	clear(m.fleet.owed)
	m.mu.Unlock()
	for i, s := range due {
		if err := s.write(ctx); errors.Is(err, ErrUnavailable) {
			m.mark(due[i:]...)
			break
		}
	}
	for i, st := range owed {
		if err := st.settle(ctx); err != nil {
			m.owe(owed[i:]...)
			return
		}
	}
}

// mark has records written soon.
func (m *Manager) mark(sessions ...*Session) {
	m.mu.Lock()
	for _, s := range sessions {
		if m.fleet.attached[s.shared.key] == s {
			m.fleet.dirty[s] = struct{}{}
		}
	}
	m.mu.Unlock()
	m.hurry()
}

// owe has events stored when that is possible again.
func (m *Manager) owe(streams ...*Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range streams {
		m.fleet.owed[st] = struct{}{}
	}
}

func (m *Manager) hurry() {
	select {
	case m.fleet.wake <- struct{}{}:
	default:
	}
}

// levelOf is a level that was stored, or the default.
func levelOf(l outriggerv1.LogLevel) outriggerv1.LogLevel {
	if l == outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED {
		return outriggerv1.LogLevel_LOG_LEVEL_INFO
	}
	return l
}
