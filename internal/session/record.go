// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/feed"
)

// sharedSession is what a session has beside if other replicas know it. Its fields belong to
// the session's lock, unless they say otherwise.
type sharedSession struct {
	key string // never changes
	// saving is held while the record is written.
	saving sync.Mutex
	// record is what was last heard of it, saved when this replica wrote it last.
	record Record
	saved  time.Time
	// isTeller: this replica tells the client what belongs to no request. told is the catalog
	// that the client was told of, if that is not written yet.
	isTeller bool
	told     string
	// followAgain gets a token when there may be watches that the teller has to follow.
	followAgain chan struct{}
}

// isDue reports whether the lifetime of a session has to be extended.
func (sh *sharedSession) isDue(now time.Time, every time.Duration, inUse bool, since time.Time) bool {
	// The manager's lock orders it with write.
	return now.Sub(sh.saved) >= every && (inUse || since.After(sh.saved))
}

// save changes the record at all replicas. The errors are [ErrUnknown] where the session has
// ended, [ErrUnavailable] and the cause of ctx.
func (s *Session) save(ctx context.Context, change func(*Record)) error {
	sh, m := s.shared, s.manager
	sh.saving.Lock()
	defer sh.saving.Unlock()
	for range saveAttempts {
		s.mu.Lock()
		r := sh.record.clone()
		if sh.told != "" {
			r.Catalog = sh.told
		}
		r.Declared = s.declared
		s.mu.Unlock()
		change(&r)
		r.WrittenBy, r.Lifetime = m.fleet.store.Self(), m.lifetime()
		revision, err := m.fleet.store.Update(ctx, r)
		switch {
		case err == nil:
			r.Revision = revision
			m.mu.Lock()
			sh.saved = time.Now()
			m.fleet.note(r)
			m.mu.Unlock()
			s.adopt(r)
			return nil
		case !errors.Is(err, ErrConflict):
			return err
		}
		now, err := m.fleet.store.Get(ctx, sh.key)
		if errors.Is(err, ErrUnknown) {
			m.left(sh.key, Requested, false)
		}
		if err != nil {
			return err
		}
		s.adopt(now)
	}
	return ErrUnavailable // others write it all the time
}

// write writes the record as it is, which extends its lifetime.
func (s *Session) write(ctx context.Context) error {
	return s.save(ctx, func(r *Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.shared.isTeller {
			r.Teller = s.manager.fleet.store.Self()
		}
	})
}

// restore stores a session again whose record the store has lost.
func (s *Session) restore() {
	m := s.manager
	s.mu.Lock()
	r := s.shared.record.clone()
	s.mu.Unlock()
	// It runs on the goroutine that hears of the store, which must not wait for it.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r.WrittenBy, r.Lifetime = m.fleet.store.Self(), m.lifetime()
		revision, err := m.fleet.store.Create(ctx, r)
		if err != nil { // another replica was faster, or it is tried with the next write
			m.mark(s)
			return
		}
		r.Revision = revision
		m.mu.Lock()
		m.fleet.note(r)
		m.mu.Unlock()
		s.mu.Lock()
		s.shared.record.Revision = 0 // those of the new store begin anew
		s.mu.Unlock()
		s.adopt(r)
	}()
}

// adopt takes over what a record says, unless it is older than what is known.
func (s *Session) adopt(r Record) {
	s.mu.Lock()
	sh := s.shared
	if s.isClosed || r.Revision <= sh.record.Revision {
		s.mu.Unlock()
		return
	}
	sh.record = r
	if sh.told == r.Catalog {
		sh.told = ""
	}
	s.level, s.declared = levelOf(r.Level), r.Declared
	ended := s.rewatched(r.Watched)
	if sh.isTeller && r.Teller != s.manager.fleet.store.Self() {
		ended = append(ended, s.stopTelling()...)
	}
	s.mu.Unlock()
	for _, end := range ended {
		end()
	}
}

// rewatched takes over what the client is subscribed to, and returns what ends the watches
// that it is not subscribed to any more; s.mu is held.
func (s *Session) rewatched(watched []Watched) (ended []func()) {
	uris, bytes := make([]string, 0, len(watched)), 0
	follow := false
	for _, w := range watched {
		uris, bytes = append(uris, w.URI), bytes+len(w.URI)
		follow = follow || w.IsWatch && s.scoped[w.URI] == nil
	}
	for uri, w := range s.scoped {
		if !slices.Contains(uris, uri) {
			ended = append(ended, w.stop)
			delete(s.scoped, uri)
		}
	}
	if !slices.Equal(uris, s.watched) {
		// An error means that the feed has closed, or that it is full: the next change of what is
		// watched tries again.
		_ = s.rewatch(uris, bytes-s.watchedBytes)
	}
	if follow && s.shared.isTeller {
		s.signalFollow()
	}
	return ended
}

func (s *Session) signalFollow() {
	select {
	case s.shared.followAgain <- struct{}{}:
	default:
	}
}

// TellHere makes this replica the one that tells the client what belongs to no request.
// What may have changed while another one did is told as changed. Without a store, it is
// always this one. The errors are [ErrUnknown], [ErrClosed] and those of the feed; without
// the store, the session goes on here for the time being.
func (s *Session) TellHere(ctx context.Context) error {
	if s.shared == nil {
		return nil
	}
	self := s.manager.fleet.store.Self()
	for range saveAttempts {
		s.mu.Lock()
		isTeller := s.shared.isTeller
		s.mu.Unlock()
		if isTeller {
			return nil
		}
		err := s.save(ctx, func(r *Record) { r.Teller = self })
		isAway := errors.Is(err, ErrUnavailable)
		if err != nil && !isAway {
			return err
		}
		if told, err := s.beginTelling(isAway); told || err != nil {
			if isAway {
				s.manager.mark(s)
			}
			return err
		}
	}
	return ErrUnavailable // others want to all the time
}

// beginTelling follows what the client is to be told of, unless another replica has become
// the one that tells it meanwhile. That is not asked where the store is away.
func (s *Session) beginTelling(isAway bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed:
		return false, ErrClosed
	case !isAway && s.shared.record.Teller != s.manager.fleet.store.Self():
		return false, nil
	}
	if s.manager.opts.Feed != nil {
		if err := s.subscribe(); err != nil {
			return false, err
		}
		s.missAll(s.shared.record.Catalog != s.manager.catalog())
	}
	s.shared.isTeller = true
	s.signalFollow()
	return true, nil
}

// missAll notes that everything the client is told of may have changed; s.mu is held.
func (s *Session) missAll(lists bool) {
	s.missed = nil
	if lists {
		s.missed = []feed.Change{{Kind: feed.ToolsListChanged}, {Kind: feed.PromptsListChanged}, {Kind: feed.ResourcesListChanged}}
	}
	for _, uri := range s.watched {
		s.missed = append(s.missed, feed.Change{Kind: feed.ResourceUpdated, URI: uri})
	}
}

// stopTelling leaves it to another replica, and returns what ends the watches that ran for
// it; s.mu is held.
func (s *Session) stopTelling() (ended []func()) {
	s.shared.isTeller = false
	if s.changes != nil {
		s.changes.Close()
	}
	s.changes, s.missed = nil, nil
	for _, w := range s.scoped {
		ended = append(ended, w.stop)
	}
	s.scoped = nil
	if st := s.main; st != nil {
		s.main = nil
		if at := slices.Index(s.order, st); at >= 0 {
			s.dropStream(at)
		}
		st.take()
	}
	return ended
}

// Unfollowed returns the watches that this replica has to follow for the client, and does
// not. FollowAgain returns a channel that receives when there may be some; it is nil without
// a store.
func (s *Session) Unfollowed() []string {
	if s.shared == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shared.isTeller {
		return nil
	}
	var out []string
	for _, w := range s.shared.record.Watched {
		if w.IsWatch && s.scoped[w.URI] == nil {
			out = append(out, w.URI)
		}
	}
	return out
}

// FollowAgain is described at [Session.Unfollowed].
func (s *Session) FollowAgain() <-chan struct{} {
	if s.shared == nil {
		return nil
	}
	return s.shared.followAgain
}

// Cancel cancels a request that runs at another replica, if any does. The error is
// [ErrUnavailable].
func (s *Session) Cancel(ctx context.Context, requestID []byte, reason string) error {
	if s.shared == nil {
		return nil
	}
	return s.manager.fleet.store.Tell(ctx, Message{Key: s.shared.key, Cancel: &Cancel{RequestID: requestID, Reason: reason}})
}

// moved hears that another replica reads a stream for the client.
func (s *Session) moved(to Moved) {
	if to.To == s.manager.fleet.store.Self() {
		return
	}
	s.mu.Lock()
	here := [...]*Stream{s.streams[to.Stream], s.fed[to.Stream]}
	s.mu.Unlock()
	for _, st := range here {
		if st != nil {
			st.takeBefore(to.At)
		}
	}
}
