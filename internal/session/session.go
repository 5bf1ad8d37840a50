// SPDX-License-Identifier: Apache-2.0

// Package session keeps the state of the legacy eras of MCP between messages: who opened a session with which capabilities, its
// log level and resource subscriptions, questions that wait for the client's answer, and the streams of messages to the client,
// which outlive their connections.
//
// What a client said when it opened its session is sealed in the id that it got, so any process with the same keys serves its
// requests. What a session learns later is in memory: the replica that opened it is its home and keeps it, and [Replicas]
// carries changes, answers and cancellations between replicas. Streams and their events exist in one process
// (docs/decisions/0070-sessions-in-their-id.md).
//
// Everything has a limit: the number of sessions in memory (the least recently used one makes room), the age of an id, the time
// that an unused session stays in memory, the size of the client's declarations, resource subscriptions, streams, the size and
// age of the replay buffers, and the size of all replay buffers together. An idle session costs a few kilobytes and no
// goroutine.
//
// All types are safe for concurrent use.
package session

import (
	"container/list"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// Session is the session of one client, from initialize to its end. Make one with [Manager.Open] or [Manager.OpenSealed].
type Session struct {
	manager   *Manager
	id, nonce string
	key       key
	principal string
	account   *account // its caller's
	context   *outriggerv1.RequestContext
	origin    correlate.Origin
	opened    time.Time
	// expires is when its id does, home the replica that keeps what it learns; both are zero for one that only this process
	// knows and for one of a deployment without shared state. isNew: it was opened here.
	expires time.Time
	home    string
	isNew   bool

	// These belong to the manager and its lock, which comes before the session's.
	uses  int
	since time.Time
	place *list.Element // of all, and own of its caller's
	own   *list.Element

	// Locks are taken in this order: a session's, a stream's, the replay buffer's.
	mu sync.Mutex
	// version counts the changes of what it has learned: level and watched. caughtUp: its home was asked for it.
	version  uint64
	caughtUp bool
	level    outriggerv1.LogLevel
	// watched are the resources that the client learns of, watchedBytes their URIs' length, scoped those whose updates have a
	// scope; changes is where changes come from, nil where nothing does; missed is what is reported in place of what changes
	// could not hold.
	watched      []*statev1.WatchedResource
	watchedBytes int
	scoped       map[string]*scoped // of the watched resources, those whose updates have a scope
	changes      *notify.Subscription
	missed       []notify.Change
	// followAgain gets a token when there may be watches that are not followed here.
	followAgain chan struct{}
	// streams are those that can be resumed, order is the same, oldest first; numbered counts all there ever were.
	streams  map[string]*Stream
	order    []*Stream
	numbered uint64
	main     *Stream
	// pending are the questions that wait for an answer, withdrawn the last ones that do not any more; asked counts all names
	// that were given. mark ends the names of questions.
	pending   map[string]chan reply
	withdrawn []string
	asked     uint64
	mark      string
	started   bool
	declared  Lists
	isClosed  bool
	closed    chan struct{}
}

// Lists says of which lists a client was told, when the session began, that it hears when they change.
type Lists struct{ Prompts, Resources bool }

// Declare notes what the client was told.
func (s *Session) Declare(lists Lists) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declared = lists
}

// Declared returns what was given to [Session.Declare].
func (s *Session) Declared() Lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.declared
}

// isOver reports whether the session's id has expired.
func (s *Session) isOver(now time.Time) bool { return !s.expires.IsZero() && !now.Before(s.expires) }

// ID returns the session id: visible ASCII, unguessable.
func (s *Session) ID() string { return s.id }

// Context returns the client's declaration when it opened the session. It must not be changed.
func (s *Session) Context() *outriggerv1.RequestContext { return s.context }

// Origin returns the scope in which the client's ids are unique.
func (s *Session) Origin() correlate.Origin { return s.origin }

// Release ends a use that [Manager.Open] or [Manager.Use] started.
func (s *Session) Release() { s.manager.release(s) }

// Done returns a channel that is closed at the end of the session.
func (s *Session) Done() <-chan struct{} { return s.closed }

// Started records that the client is ready for unsolicited messages. It returns true the first time.
func (s *Session) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.started
	s.started = true
	return first
}

// LogLevel returns the client's minimum log level. The default excludes debug messages.
func (s *Session) LogLevel() outriggerv1.LogLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// SetLogLevel sets the minimum log level of the session, at all replicas. The errors are [ErrUnknown], [ErrUnavailable] and the
// cause of ctx.
func (s *Session) SetLogLevel(ctx context.Context, l outriggerv1.LogLevel) error {
	return s.learn(ctx, &statev1.SessionChange{Level: l}, nil)
}

// NewName returns a name that no session has returned before, for objects that a client distinguishes by the server's names.
func (s *Session) NewName(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newName(prefix)
}

func (s *Session) newName(prefix string) string {
	s.asked++
	return prefix + "-" + s.nonce + "-" + strconv.FormatUint(s.asked, 10)
}

// close ends the session's streams and questions. It may be called again.
func (s *Session) close() {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return
	}
	s.isClosed = true
	close(s.closed)
	streams, changes, pending, scoped := s.order, s.changes, s.pending, s.scoped
	s.streams, s.order, s.pending, s.main = nil, nil, nil, nil
	s.changes, s.missed, s.watched, s.withdrawn, s.scoped = nil, nil, nil, nil, nil
	s.mu.Unlock()
	for _, stream := range streams {
		stream.End()
		stream.uncount()
	}
	if changes != nil {
		changes.Close()
	}
	for _, w := range scoped {
		w.stop()
	}
	for _, c := range pending {
		close(c)
	}
}
