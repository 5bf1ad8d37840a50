// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"maps"
	"slices"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// ErrTooMany says that the session has too many resource subscriptions.
var ErrTooMany = errors.New("session: too many watched resources")

// Watch subscribes the client to changes of a resource. Repeated calls have no effect. The errors are [ErrTooMany], [ErrClosed]
// and those of the feed, and where another replica keeps them [ErrUnknown], [ErrUnavailable] and the cause of ctx; on an error
// nothing changes.
func (s *Session) Watch(ctx context.Context, uri string) error {
	return s.learn(ctx, &statev1.SessionChange{Watch: &statev1.WatchedResource{Uri: uri}}, nil)
}

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

// watchOf is a subscription to a resource whose updates have a scope.
func watchOf(uri string) *statev1.SessionChange {
	return &statev1.SessionChange{Watch: &statev1.WatchedResource{Uri: uri, IsWatch: true}}
}

// WatchScoped is [Session.Watch] for a resource whose updates are published with a scope. It replaces a subscription to the
// same resource.
func (s *Session) WatchScoped(ctx context.Context, uri, scope string) error {
	return s.learn(ctx, watchOf(uri), &scoped{scope: scope})
}

// Rescope is WatchScoped for a resource that the client is subscribed to already, and that is not followed here.
func (s *Session) Rescope(uri, scope string) error {
	return s.change(watchOf(uri), &scoped{scope: scope})
}

// OnUnwatch has end called when a subscription of WatchScoped ends. If it has ended, end is called at once; so it is if no
// client reads changes here.
func (s *Session) OnUnwatch(uri, scope string, end func()) {
	s.mu.Lock()
	w := s.scoped[uri]
	isOver := s.isClosed || w == nil || w.scope != scope
	if !isOver && s.changes == nil && s.manager.opts.Feed != nil {
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

// change changes what is known here of what the session has learned. as is how a resource is watched; nil for what another
// replica follows.
func (s *Session) change(c *statev1.SessionChange, as *scoped) error {
	s.mu.Lock()
	var before *scoped
	var err error
	switch {
	case s.isClosed:
		err = ErrClosed
	case c.GetWatch() != nil:
		before, err = s.add(c.GetWatch(), as)
	case c.Unwatch != "":
		before, err = s.remove(c.GetUnwatch())
	case c.GetLevel() != outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED:
		s.level = c.GetLevel()
	}
	s.mu.Unlock()
	before.stop()
	return err
}

// placeOf is where a resource is among those that are watched; -1 if it is not. s.mu is held.
func (s *Session) placeOf(uri string) int {
	return slices.IndexFunc(s.watched, func(w *statev1.WatchedResource) bool { return w.GetUri() == uri })
}

// add subscribes, and returns what was replaced; s.mu is held.
func (s *Session) add(w *statev1.WatchedResource, as *scoped) (before *scoped, err error) {
	o := &s.manager.opts
	uri, watched, at := w.GetUri(), slices.Clone(s.watched), s.placeOf(w.GetUri())
	switch {
	case at >= 0:
		if as == nil && (w.GetIsWatch() || s.scoped[uri] == nil) {
			as = s.scoped[uri]
		}
		watched[at] = w
	case len(watched) >= o.MaxWatched, s.watchedBytes+len(uri) > o.MaxWatchedBytes:
		return nil, ErrTooMany
	default:
		watched = append(watched, w)
	}
	before = s.scoped[uri]
	if err := s.rewatch(watched, s.scopedWith(uri, as)); err != nil {
		return nil, err
	}
	if w.GetIsWatch() && as == nil {
		signal(s.followAgain) // of another replica, for a client that may read here
	}
	if before == as {
		before = nil
	}
	return before, nil
}

// scopedWith is a copy of the watched resources with a scope, in which one is as given; nil for without. s.mu is held.
func (s *Session) scopedWith(uri string, as *scoped) map[string]*scoped {
	out := maps.Clone(s.scoped)
	delete(out, uri)
	if as == nil {
		return out
	}
	if out == nil {
		out = map[string]*scoped{}
	}
	out[uri] = as
	return out
}

// Watches reports whether the client is subscribed to changes of a resource.
func (s *Session) Watches(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.placeOf(uri) >= 0
}

// Unwatch ends the subscription. An unknown one is not an error. The errors are those of [Session.Watch].
func (s *Session) Unwatch(ctx context.Context, uri string) error {
	return s.learn(ctx, &statev1.SessionChange{Unwatch: uri}, nil)
}

// remove ends a subscription, and returns it if it has a scope; s.mu is held.
func (s *Session) remove(uri string) (before *scoped, err error) {
	at := s.placeOf(uri)
	if at < 0 {
		return nil, nil
	}
	before = s.scoped[uri]
	if err := s.rewatch(slices.Delete(slices.Clone(s.watched), at, at+1), s.scopedWith(uri, nil)); err != nil {
		return nil, err
	}
	return before, nil
}

// rewatched takes over what the client is subscribed to, and returns what it is not subscribed to any more; s.mu is held.
func (s *Session) rewatched(watched []*statev1.WatchedResource) (ended []*scoped) {
	kept := maps.Clone(s.scoped)
	for uri, w := range s.scoped {
		if !slices.ContainsFunc(watched, func(r *statev1.WatchedResource) bool { return r.GetUri() == uri }) {
			ended = append(ended, w)
			delete(kept, uri)
		}
	}
	// An error means that the feed has closed, or that it is full: the next change of what is watched tries again.
	_ = s.rewatch(watched, kept)
	s.scoped = kept
	signal(s.followAgain)
	return ended
}

// Unfollowed returns the watches that this replica has to follow for the client, and does not: those of a client that reads
// changes here. FollowAgain returns a channel that receives when there may be some.
func (s *Session) Unfollowed() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watched {
		if w.GetIsWatch() && s.scoped[w.GetUri()] == nil && s.changes != nil {
			out = append(out, w.GetUri())
		}
	}
	return out
}

// FollowAgain is described at [Session.Unfollowed].
func (s *Session) FollowAgain() <-chan struct{} { return s.followAgain }

// rewatch replaces what is watched, and which of it has a scope. After an error nothing has changed. s.mu is held.
func (s *Session) rewatch(watched []*statev1.WatchedResource, scoped map[string]*scoped) error {
	if s.changes != nil {
		err := s.changes.Refilter(filterOf(watched, scoped))
		// Where the session is behind, the next PollChange begins anew, with what is watched by then.
		if err != nil && !(errors.Is(err, notify.ErrClosed) && s.isBehind()) {
			return err
		}
	}
	s.scoped = scoped
	s.watched, s.watchedBytes = watched, 0
	for _, w := range watched {
		s.watchedBytes += len(w.GetUri())
	}
	s.missed = slices.DeleteFunc(s.missed, func(c notify.Change) bool {
		return c.Kind == notify.ResourceUpdated && s.placeOf(c.URI) < 0
	})
	return nil
}

// isBehind reports whether the feed has dropped the session because it did not read its changes. s.mu is held.
func (s *Session) isBehind() bool {
	var slow *notify.SlowError
	_, _, err := s.changes.Poll()
	return errors.As(err, &slow)
}

// filterOf chooses what a client learns of.
func filterOf(watched []*statev1.WatchedResource, scoped map[string]*scoped) notify.Filter {
	out := notify.Filter{Tools: true, Prompts: true, Resources: true}
	for _, r := range watched {
		if w := scoped[r.GetUri()]; w != nil {
			out.Scoped = append(out.Scoped, notify.Scoped{URI: r.GetUri(), Scope: w.scope})
		} else {
			out.ResourceURIs = append(out.ResourceURIs, r.GetUri())
		}
	}
	return out
}

// Hear has changes collected for the client, which a session that was opened here begins with. Elsewhere, and after a long time
// without a reader, what may have changed meanwhile is reported as changed. The errors are [ErrClosed] and those of the feed.
func (s *Session) Hear() error { return s.hear(true) }

func (s *Session) hear(isLate bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed:
		return ErrClosed
	case s.changes != nil, s.manager.opts.Feed == nil:
		return nil
	}
	if err := s.subscribe(); err != nil || !isLate {
		return err
	}
	s.missAll()
	signal(s.followAgain)
	return nil
}

// Miss tells the client that everything may have changed.
func (s *Session) Miss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missAll()
}

// sleep ends the collection of changes that no client reads.
func (s *Session) sleep() {
	s.mu.Lock()
	ended := s.scoped
	if s.changes != nil {
		s.changes.Close()
	}
	s.changes, s.missed, s.scoped = nil, nil, nil
	s.mu.Unlock()
	for _, w := range ended {
		w.stop()
	}
}

// missAll notes that everything the client learns of may have changed; s.mu is held.
func (s *Session) missAll() {
	if s.changes == nil {
		return
	}
	s.missed = []notify.Change{{Kind: notify.ToolsListChanged}, {Kind: notify.PromptsListChanged}, {Kind: notify.ResourcesListChanged}}
	for _, w := range s.watched {
		s.missed = append(s.missed, notify.Change{Kind: notify.ResourceUpdated, URI: w.GetUri()})
	}
}

// subscribe replaces the subscription; s.mu is held.
func (s *Session) subscribe() error {
	changes, err := s.manager.opts.Feed.Subscribe(filterOf(s.watched, s.scoped))
	if err != nil {
		return err
	}
	if s.changes != nil {
		s.changes.Close()
	}
	s.changes = changes
	return nil
}

// PollChange returns the next change for the client, and false if there is none yet. Changes without a reader are reported
// once. If too many changes were missed, everything that the client is subscribed to counts as changed. The errors are those of
// the feed, and [ErrClosed] if the session has ended.
func (s *Session) PollChange() (notify.Change, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed:
		return notify.Change{}, false, ErrClosed
	case s.changes == nil:
		return notify.Change{}, false, nil
	case len(s.missed) > 0:
		return s.nextMissed(), true, nil
	}
	c, ok, err := s.changes.Poll()
	var slow *notify.SlowError
	if !errors.As(err, &slow) {
		return c, ok, err
	}
	if err := s.subscribe(); err != nil {
		return notify.Change{}, false, err
	}
	s.missAll()
	return s.nextMissed(), true, nil
}

func (s *Session) nextMissed() notify.Change {
	c := s.missed[0]
	if s.missed = s.missed[1:]; len(s.missed) == 0 {
		s.missed = nil
	}
	return c
}

// Changed returns a channel that receives when [Session.PollChange] may have something new. Call it again after each
// PollChange, and call PollChange until it returns nothing. It is nil if nothing ever changes.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		return nil
	}
	return s.changes.Ready()
}

// NextChange is PollChange with waiting. It may also return the cause of ctx.
func (s *Session) NextChange(ctx context.Context) (notify.Change, error) {
	for {
		c, ok, err := s.PollChange()
		if ok || err != nil {
			return c, err
		}
		select {
		case <-s.Changed():
		case <-s.closed:
			return notify.Change{}, ErrClosed
		case <-ctx.Done():
			return notify.Change{}, context.Cause(ctx)
		}
	}
}
