// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/feed"
)

// Session is the session of one client, from initialize to its end. Make one
// with [Manager.Open].
type Session struct {
	manager   *Manager
	id, nonce string
	principal string
	account   *account // its caller's
	context   *outriggerv1.RequestContext
	origin    correlate.Origin
	opened    time.Time

	// These belong to the manager and its lock.
	uses  int
	since time.Time
	place *list.Element // of all, and own of its caller's
	own   *list.Element
	// shared is what other replicas know of the session; nil if none does.
	shared *sharedSession

	// Locks are taken in this order: a session's, a stream's, the replay buffer's; the
	// manager's comes after a session's.
	mu    sync.Mutex
	level outriggerv1.LogLevel
	// watched are the resources that the client is told of, watchedBytes their
	// URIs' length, scoped those whose updates have a scope; changes is where changes come from, nil where nothing does;
	// missed is what is told in place of what changes could not hold.
	watched      []string
	watchedBytes int
	scoped       map[string]*scoped // of the watched resources, those whose updates have a scope
	changes      *feed.Subscription
	missed       []feed.Change
	// streams are those that can be resumed, order is the same, oldest first;
	// numbered counts all there ever were.
	streams  map[string]*Stream
	order    []*Stream
	numbered uint64
	main     *Stream
	// fed are the streams of other replicas that the client reads here, by name.
	fed map[string]*Stream
	// pending are the questions that wait for an answer, withdrawn the last ones
	// that do not any more; asked counts all names that were given.
	pending   map[string]chan reply
	withdrawn []string
	asked     uint64
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
	s.declared = lists
	s.mu.Unlock()
	if s.shared != nil && lists != (Lists{}) {
		s.manager.mark(s)
	}
}

// Declared returns what was given to [Session.Declare].
func (s *Session) Declared() Lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.declared
}

// keptClient is a copy of what a client said, within a bound and free of the
// message that it came in. Who the client is, is for display only, and left out
// where it is too long.
func keptClient(client *outriggerv1.RequestContext, most int) (*outriggerv1.RequestContext, error) {
	kept := proto.CloneOf(client)
	if proto.Size(kept) > most && kept.GetClientInfo() != nil {
		kept.ClientInfo.Icons = nil
	}
	if proto.Size(kept) > most && kept != nil {
		kept.ClientInfo = nil
	}
	if proto.Size(kept) > most {
		return nil, ErrLargeClient
	}
	return kept, nil
}

// ID returns the session id: visible ASCII, unguessable.
func (s *Session) ID() string { return s.id }

// Context returns the client's declaration when it opened the session. It must
// not be changed.
func (s *Session) Context() *outriggerv1.RequestContext { return s.context }

// Origin returns the scope in which the client's ids are unique.
func (s *Session) Origin() correlate.Origin { return s.origin }

// Release ends a use that [Manager.Open] or [Manager.Use] started.
func (s *Session) Release() { s.manager.release(s) }

// Done returns a channel that is closed at the end of the session.
func (s *Session) Done() <-chan struct{} { return s.closed }

// Started records that the client is ready for unsolicited messages. It returns
// true the first time.
func (s *Session) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.started
	s.started = true
	return first
}

// LogLevel returns the client's minimum log level. The default excludes debug
// messages.
func (s *Session) LogLevel() outriggerv1.LogLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// SetLogLevel sets the minimum log level of the session, at all replicas. Without a store
// it always succeeds. The errors are [ErrUnknown], [ErrUnavailable] and the cause of ctx.
func (s *Session) SetLogLevel(ctx context.Context, l outriggerv1.LogLevel) error {
	if s.shared != nil {
		return s.save(ctx, func(r *Record) { r.Level = l })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = l
	return nil
}

// NewName returns a name that no session has returned before, for objects that a
// client distinguishes by the server's names.
func (s *Session) NewName(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newName(prefix)
}

func (s *Session) newName(prefix string) string {
	s.asked++
	if s.shared != nil { // so that another replica knows whose it is
		prefix += "-" + s.manager.fleet.store.Self()
	}
	return prefix + "-" + s.nonce + "-" + strconv.FormatUint(s.asked, 10)
}

// close ends everything. It may be called again.
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
		stream.close() // those that are stored may go on elsewhere
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
