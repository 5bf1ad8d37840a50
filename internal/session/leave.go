// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"
)

// delete ends a session at all replicas. The errors are those of the store.
func (m *Manager) delete(ctx context.Context, key string, why Reason) error {
	m.mu.Lock()
	m.fleet.ending[key] = why
	m.mu.Unlock()
	err := m.fleet.store.Delete(ctx, key)
	if err == nil {
		m.left(key, why, true)
	}
	m.mu.Lock()
	delete(m.fleet.ending, key)
	m.mu.Unlock()
	return err
}

// left ends a session that is gone from the store. Only one replica tells of it: the one
// that ended it, or wrote it last.
func (m *Manager) left(key string, why Reason, mine bool) {
	m.mu.Lock()
	k, s := m.fleet.drop(key), m.fleet.attached[key]
	if s != nil {
		m.forget(s)
	}
	if here, ok := m.fleet.ending[key]; ok {
		why, mine = here, true
	}
	mine = k != nil && (mine || why == Expired && k.writtenBy == m.fleet.store.Self())
	switch {
	case mine && why == Expired:
		m.expired++
	case mine && why == Evicted:
		m.evicted++
	}
	m.mu.Unlock()
	m.cut(s)
	if mine && m.opts.Ended != nil {
		m.opts.Ended(Ended{Version: k.version, Principal: k.principal, Why: why, Took: time.Since(k.opened)})
	}
}

// cut ends what this replica has of a session.
func (m *Manager) cut(s *Session) {
	if s == nil {
		return
	}
	s.close()
	if m.opts.Cut != nil {
		m.opts.Cut(s.origin)
	}
}
