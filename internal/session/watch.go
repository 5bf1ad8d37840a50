// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/feed"
)

// ErrTooMany says that the session has too many resource subscriptions.
var ErrTooMany = errors.New("session: too many watched resources")

// Watch subscribes the client to changes of a resource. Repeated calls have no
// effect. The errors are [ErrTooMany], [ErrClosed] and those of the feed, and with a store
// [ErrUnknown], [ErrUnavailable] and the cause of ctx; on an error nothing changes.
func (s *Session) Watch(ctx context.Context, uri string) error { return s.watch(ctx, uri, nil) }

// scoped is a watched resource whose updates have a scope.
type scoped struct {
	scope string
	end   func() // guarded by the session; nil until [Session.OnUnwatch]
}

func (w *scoped) stop() {
	if w != nil && w.end != nil {
		w.end()
	}
}

// WatchScoped is [Session.Watch] for a resource whose updates are published with a
// scope. It replaces a subscription to the same resource.
func (s *Session) WatchScoped(ctx context.Context, uri, scope string) error {
	return s.watch(ctx, uri, &scoped{scope: scope})
}

// Rescope is WatchScoped for a resource that the client is subscribed to already, at another
// replica. Nothing is stored.
func (s *Session) Rescope(uri, scope string) error {
	before, err := s.add(uri, &scoped{scope: scope})
	before.stop()
	return err
}

// OnUnwatch has end called when a subscription of WatchScoped ends. If it has ended, end
// is called at once; so it is if another replica tells the client of changes.
func (s *Session) OnUnwatch(uri, scope string, end func()) {
	s.mu.Lock()
	w := s.scoped[uri]
	isOver := s.isClosed || w == nil || w.scope != scope
	if !isOver && s.shared != nil && !s.shared.isTeller {
		isOver = true
		delete(s.scoped, uri)
	}
	if !isOver {
		w.end = end
	}
	s.mu.Unlock()
	if isOver {
		end()
	}
}

func (s *Session) watch(ctx context.Context, uri string, as *scoped) error {
	known := s.Watches(uri)
	before, err := s.add(uri, as)
	before.stop()
	if err != nil || s.shared == nil {
		return err
	}
	err = s.save(ctx, func(r *Record) {
		r.Watched = slices.DeleteFunc(r.Watched, func(w Watched) bool { return w.URI == uri })
		r.Watched = append(r.Watched, Watched{URI: uri, IsWatch: as != nil})
	})
	if err != nil && !known {
		if before, failed := s.remove(uri); failed == nil {
			before.stop()
		}
	}
	return err
}

// add subscribes, and returns what was replaced.
func (s *Session) add(uri string, as *scoped) (before *scoped, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.manager.opts
	uris, grown := s.watched, 0
	switch {
	case s.isClosed:
		return nil, ErrClosed
	case slices.Contains(s.watched, uri):
		if as == nil && s.scoped[uri] == nil {
			return nil, nil
		}
	case len(s.watched) >= o.MaxWatched, s.watchedBytes+len(uri) > o.MaxWatchedBytes:
		return nil, ErrTooMany
	default:
		uris, grown = append(slices.Clone(s.watched), uri), len(uri)
	}
	return s.rescoped(uri, as, func() error { return s.rewatch(uris, grown) })
}

// rescoped changes what a watched resource is subscribed to with, unless the change
// fails. It returns what was there before. s.mu is held.
func (s *Session) rescoped(uri string, as *scoped, change func() error) (before *scoped, err error) {
	before = s.scoped[uri]
	set := func(w *scoped) {
		if w == nil {
			delete(s.scoped, uri)
			return
		}
		if s.scoped == nil {
			s.scoped = map[string]*scoped{}
		}
		s.scoped[uri] = w
	}
	set(as)
	if err = change(); err != nil {
		set(before)
		return nil, err
	}
	return before, nil
}

// Watches reports whether the client is subscribed to changes of a resource.
func (s *Session) Watches(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.watched, uri)
}

// Unwatch ends the subscription. An unknown one is not an error. The errors are those of
// [Session.Watch].
func (s *Session) Unwatch(ctx context.Context, uri string) error {
	if s.shared != nil {
		err := s.save(ctx, func(r *Record) {
			r.Watched = slices.DeleteFunc(r.Watched, func(w Watched) bool { return w.URI == uri })
		})
		if err != nil {
			return err
		}
	}
	before, err := s.remove(uri)
	before.stop()
	return err
}

// remove ends a subscription, and returns it if it has a scope.
func (s *Session) remove(uri string) (before *scoped, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.watched, uri)
	switch {
	case s.isClosed:
		return nil, ErrClosed
	case at < 0:
		return nil, nil
	}
	return s.rescoped(uri, nil, func() error {
		return s.rewatch(slices.Delete(slices.Clone(s.watched), at, at+1), -len(uri))
	})
}

// rewatch replaces what is watched; s.mu is held.
func (s *Session) rewatch(uris []string, grown int) error {
	if s.changes != nil {
		err := s.changes.Refilter(s.filter(uris))
		if errors.Is(err, feed.ErrClosed) && s.isBehind() {
			err = nil // the next PollChange begins anew, with what is watched by then
		}
		if err != nil {
			return err
		}
	}
	s.watched = uris
	s.watchedBytes += grown
	s.missed = slices.DeleteFunc(s.missed, func(c feed.Change) bool {
		return c.Kind == feed.ResourceUpdated && !slices.Contains(uris, c.URI)
	})
	return nil
}

// isBehind reports whether the feed has dropped the session because it did not read
// its changes. s.mu is held.
func (s *Session) isBehind() bool {
	var slow *feed.SlowError
	_, _, err := s.changes.Poll()
	return errors.As(err, &slow)
}

// filter chooses what a client is told of. s.mu is held.
func (s *Session) filter(uris []string) feed.Filter {
	out := feed.Filter{Tools: true, Prompts: true, Resources: true}
	for _, uri := range uris {
		if w := s.scoped[uri]; w != nil {
			out.Scoped = append(out.Scoped, feed.Scoped{URI: uri, Scope: w.scope})
		} else {
			out.ResourceURIs = append(out.ResourceURIs, uri)
		}
	}
	return out
}

// follow subscribes to what the client is to be told of.
func (s *Session) follow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed:
		return ErrClosed
	case s.manager.opts.Feed == nil:
		return nil
	}
	return s.subscribe()
}

// subscribe replaces the subscription; s.mu is held.
func (s *Session) subscribe() error {
	changes, err := s.manager.opts.Feed.Subscribe(s.filter(s.watched))
	if err != nil {
		return err
	}
	if s.changes != nil {
		s.changes.Close()
	}
	s.changes = changes
	return nil
}

// PollChange returns the next change for the client, and false if there is none yet.
// Changes without a reader are reported once. If too many changes were missed,
// everything that the client is subscribed to counts as changed. The errors are those
// of the feed, and [ErrClosed] if the session has ended.
func (s *Session) PollChange() (feed.Change, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed:
		return feed.Change{}, false, ErrClosed
	case s.changes == nil:
		return feed.Change{}, false, nil
	case len(s.missed) > 0:
		return s.nextMissed(), true, nil
	}
	c, ok, err := s.changes.Poll()
	var slow *feed.SlowError
	if !errors.As(err, &slow) {
		if ok {
			s.tell(c)
		}
		return c, ok, err
	}
	if err := s.subscribe(); err != nil {
		return feed.Change{}, false, err
	}
	s.missAll(true)
	return s.nextMissed(), true, nil
}

func (s *Session) nextMissed() feed.Change {
	c := s.missed[0]
	if s.missed = s.missed[1:]; len(s.missed) == 0 {
		s.missed = nil
	}
	s.tell(c)
	return c
}

// tell notes that the client is told of another catalog; s.mu is held.
func (s *Session) tell(c feed.Change) {
	if s.shared == nil || c.Kind == feed.ResourceUpdated {
		return
	}
	s.shared.told = s.manager.catalog()
	s.manager.mark(s)
}

// Changed returns a channel that receives when [Session.PollChange] may have
// something new. Call it again after each PollChange, and call PollChange until it
// returns nothing. It is nil if nothing ever changes.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		return nil
	}
	return s.changes.Ready()
}

// NextChange is PollChange with waiting. It may also return the cause of ctx.
func (s *Session) NextChange(ctx context.Context) (feed.Change, error) {
	for {
		c, ok, err := s.PollChange()
		if ok || err != nil {
			return c, err
		}
		select {
		case <-s.Changed():
		case <-s.closed:
			return feed.Change{}, ErrClosed
		case <-ctx.Done():
			return feed.Change{}, context.Cause(ctx)
		}
	}
}
