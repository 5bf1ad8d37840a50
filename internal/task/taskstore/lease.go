// SPDX-License-Identifier: Apache-2.0

package taskstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/state"
)

// renewals is how often a lease is renewed within its length: three may fail.
const renewals = 4

// renewRetry is the pause before a renewal that failed is tried again.
const renewRetry = 250 * time.Millisecond

// lease is the lease of this replica, and what it knows of those of others.
type lease struct {
	mu sync.Mutex
	// revision is that of the own lease; zero without one. renewed is when it was renewed
	// last, and since when it has been held without a break.
	revision       uint64
	renewed, since time.Time
	// seen is when the lease of an owner was heard of last.
	seen map[string]time.Time
}

// Self implements [task.Replicas].
func (s *Store) Self() string { return s.self }

// renew holds the lease until ctx ends, and gives it up then.
func (s *Store) renew(ctx context.Context) {
	every := s.opts.Lease / renewals
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.resign(context.WithoutCancel(ctx))
			return
		case <-timer.C:
		}
		wait := every
		if err := s.renewOnce(ctx); err != nil {
			wait = min(every, renewRetry)
		}
		timer.Reset(wait)
	}
}

// renewOnce renews the lease, or takes one where there is none.
func (s *Store) renewOnce(ctx context.Context) error {
	l := &s.lease
	l.mu.Lock()
	revision := l.revision
	l.mu.Unlock()
	// It counts from before it was asked for.
	now := time.Now()
	revision, err := s.write(ctx, revision)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.since = time.Time{}
		return err
	}
	if l.revision == 0 || l.since.IsZero() || now.Sub(l.renewed) >= s.opts.Lease {
		l.since = now
	}
	l.revision, l.renewed = revision, now
	return nil
}

// write writes the lease, which is the last one or none, if nothing went wrong before.
// It never deletes it: for a moment others would take this replica for departed.
func (s *Store) write(ctx context.Context, revision uint64) (uint64, error) {
	if revision > 0 {
		renewed, err := s.owners.Update(ctx, s.self, []byte(s.opts.Name), revision, s.opts.Lease)
		if !errors.Is(err, state.ErrConflict) {
			return renewed, err
		}
	}
	created, err := s.owners.Create(ctx, s.self, []byte(s.opts.Name), s.opts.Lease)
	if !errors.Is(err, state.ErrExists) {
		return created, err
	}
	// A write that seemed to fail did not.
	e, err := s.owners.Get(ctx, s.self)
	if err != nil {
		return 0, err
	}
	return s.owners.Update(ctx, s.self, []byte(s.opts.Name), e.Revision, s.opts.Lease)
}

// resign gives the lease up, so that others need not wait for its end.
func (s *Store) resign(ctx context.Context) {
	s.lease.mu.Lock()
	held := s.lease.revision > 0
	s.lease.revision, s.lease.since = 0, time.Time{}
	s.lease.mu.Unlock()
	if held {
		_ = s.owners.Delete(ctx, s.self, 0) // else it expires
	}
}

// Steady implements [task.Replicas].
func (s *Store) Steady() bool {
	s.mu.Lock()
	loaded := s.loaded
	s.mu.Unlock()
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	now := time.Now()
	return loaded && !s.lease.since.IsZero() && now.Sub(s.lease.since) >= s.opts.Lease && now.Sub(s.lease.renewed) < s.opts.Lease
}

// Alive implements [task.Replicas]. A lease that was renewed lately is held; for any other
// it asks the leader.
func (s *Store) Alive(ctx context.Context, owner string) (bool, error) {
	if owner == s.self {
		return true, nil
	}
	s.lease.mu.Lock()
	seen, ok := s.lease.seen[owner]
	s.lease.mu.Unlock()
	if ok && time.Since(seen) < s.opts.Lease {
		return true, nil
	}
	_, err := s.owners.Get(ctx, owner)
	switch {
	case err == nil, errors.Is(err, state.ErrUnreadable):
		return true, nil
	case errors.Is(err, state.ErrNotFound):
		return false, nil
	}
	return false, translate(err)
}

// ownerChanged hears of a lease.
func (s *Store) ownerChanged(e state.Entry) {
	s.lease.mu.Lock()
	if e.Gone {
		delete(s.lease.seen, e.Key)
	} else {
		s.lease.seen[e.Key] = time.Now()
	}
	s.lease.mu.Unlock()
	if e.Gone {
		s.mu.Lock()
		s.depart()
		s.mu.Unlock()
	}
}

func (s *Store) ownersReset() {
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	clear(s.lease.seen)
	s.lease.revision, s.lease.since = 0, time.Time{}
}

// count is the number of owners that hold a lease, as far as is known.
func (l *lease) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// Gone reports whether a replica has ended: it has no lease, and this one has held its own for long enough to know.
func (s *Store) Gone(ctx context.Context, replica string) (bool, error) {
	alive, err := s.Alive(ctx, replica)
	return err == nil && !alive && s.Steady(), err
}
