// SPDX-License-Identifier: Apache-2.0

package taskstore

import (
	"fmt"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// clockSkew is how far clocks of replicas may be apart without a change being taken for an
// old one.
const clockSkew = time.Minute

// changed learns of a record, and tells watchers of one that was updated.
func (s *Store) changed(e state.Entry) {
	if e.Gone {
		s.mu.Lock()
		s.forget(e.Key)
		s.mu.Unlock()
		return
	}
	if e.Err != nil {
		s.opts.OnError(fmt.Errorf("task store: task %s: %w", e.Key, e.Err))
		return
	}
	r, err := decode(e.Value, e.Revision)
	if err != nil {
		s.opts.OnError(err)
		return
	}
	for _, tell := range s.learn(&r, s.room(len(e.Value))) {
		tell(r)
	}
}

// learn notes a record, and returns whom to tell of it.
func (s *Store) learn(r *task.Record, size int64) []func(task.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.known[r.ID]
	if before != nil && before.revision > r.Version {
		return nil
	}
	s.keep(r, size, r.Version)
	if r.Owner == "" && !r.IsFinal() {
		s.depart()
	}
	// A creation is no change. One that was missed shows by what came after it.
	isNew := before == nil || before.revision == 0 || before.revision == r.Version
	// What was there before this process is no change, either; what came while it was loaded
	// is one, and clocks differ.
	changed := r.Task.GetLastUpdatedAt().AsTime()
	if !s.loaded && changed.Before(s.started.Add(-clockSkew)) || isNew && r.Takeovers == 0 && changed.Equal(r.Task.GetCreatedAt().AsTime()) {
		return nil
	}
	return s.watchers
}

// keep notes what is known of a record. s.mu is held.
func (s *Store) keep(r *task.Record, size int64, revision uint64) {
	s.forget(r.ID)
	s.known[r.ID] = &known{
		principal: r.Principal, owner: r.Owner, isFinal: r.IsFinal(), size: size, expires: r.Expires, revision: revision,
	}
	s.callers[r.Principal]++
	s.bytes += size
}

// forget forgets a record. s.mu is held.
func (s *Store) forget(id string) {
	k := s.known[id]
	if k == nil {
		return
	}
	delete(s.known, id)
	if s.callers[k.principal]--; s.callers[k.principal] == 0 {
		delete(s.callers, k.principal)
	}
	s.bytes -= k.size
}

// sweep forgets what has expired: its marker may have been missed. s.mu is held.
func (s *Store) sweep() {
	if len(s.known) < s.opts.MaxTasks && s.bytes < s.opts.MaxBytes/2 {
		return // it matters to no one
	}
	now := time.Now()
	for id, k := range s.known {
		if !now.Before(k.expires) {
			s.forget(id)
		}
	}
}

func (s *Store) load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
}

// reset forgets everything: the bucket is another one.
func (s *Store) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	clear(s.callers)
	s.bytes, s.loaded = 0, false
}

// Unfinished implements [task.Replicas].
func (s *Store) Unfinished() []task.Unfinished {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var out []task.Unfinished
	for id, k := range s.known {
		if !k.isFinal && k.revision > 0 && now.Before(k.expires) {
			out = append(out, task.Unfinished{ID: id, Owner: k.owner})
		}
	}
	return out
}

// Departed implements [task.Replicas].
func (s *Store) Departed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.departed
}

// depart says that an owner may have departed. s.mu is held.
func (s *Store) depart() {
	close(s.departed)
	s.departed = make(chan struct{})
}
