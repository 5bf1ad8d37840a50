// SPDX-License-Identifier: Apache-2.0

package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

const (
	// maxRecordBytes bounds a session: what its client declared, and the URIs that it is
	// subscribed to, with room to spare.
	maxRecordBytes = 256 << 10
	// partBytes is the part of a message that one stored message holds: half of what NATS takes
	// by default (max_payload).
	partBytes = 512 << 10
	// maxPerStream is how many messages of one stream of a session are kept, a little more than
	// a replica itself keeps.
	maxPerStream = 2 * session.DefaultMaxEvents
)

// Replicas knows the replicas of the deployment.
type Replicas interface {
	// Self returns the id of this one, which is letters and digits.
	Self() string
	// Alive reports whether a replica is there; where Steady, one that is not has departed. Departed returns a channel that is
	// closed when one may have departed.
	Alive(ctx context.Context, replica string) (bool, error)
	Steady() bool
	Departed() <-chan struct{}
}

// Options configure a [Store]. Zero fields take the defaults.
type Options struct {
	// MaxBytes bounds the records of all sessions, MaxEventBytes the events of their streams,
	// of which the oldest are dropped. EventTTL is how long an event is kept at most.
	MaxBytes, MaxEventBytes int64
	EventTTL                time.Duration
	// Idle is that of the manager: how long a session lives without a use.
	Idle time.Duration
	// OnError is told what no caller can be. Nil tells nobody.
	OnError func(error)
}

// Store is a [session.Store]. Make one with [New].
type Store struct {
	opts     Options
	client   *state.Client
	replicas Replicas
	sessions *state.Bucket
	events   *state.Stream
	channel  *state.Channel
}

var _ session.Store = (*Store)(nil)

// ChannelName is the kind of the channel between replicas.
const ChannelName = "replicas"

// Places are those of a store: the bucket of sessions, and the stream of what their streams carry.
func Places(o Options) (state.BucketOptions, state.StreamOptions) {
	defaults.Fill(&o.MaxBytes, defaults.StateMaxSessionBytes)
	defaults.Fill(&o.MaxEventBytes, defaults.StateMaxStreamBytes)
	defaults.Fill(&o.EventTTL, defaults.StateStreamTTL)
	// The idle time of sessions may grow, and the bucket stays as it was made: so it has no age.
	defaults.Fill(&o.Idle, defaults.SessionIdleTimeout)
	// A record lives somewhat longer than a session may be idle.
	return state.BucketOptions{Name: "sessions", MaxBytes: o.MaxBytes, MaxValueBytes: maxRecordBytes, Remember: 2 * o.Idle},
		state.StreamOptions{Name: "streams", MaxBytes: o.MaxEventBytes, MaxAge: o.EventTTL, MaxPerSubject: maxPerStream, DropOldest: true}
}

// New declares the bucket and the stream, and returns the store.
func New(c *state.Client, r Replicas, o Options) *Store {
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	sessions, events := Places(o)
	return &Store{
		opts: o, client: c, replicas: r, sessions: c.Bucket(sessions), events: c.Stream(events),
		channel: c.Channel(ChannelName),
	}
}

// Self implements [session.Store].
func (s *Store) Self() string { return s.replicas.Self() }

// IsAvailable implements [session.Store].
func (s *Store) IsAvailable() bool { return s.client.Health().OK }

// Create implements [session.Store].
func (s *Store) Create(ctx context.Context, r session.Record) (uint64, error) {
	value, err := encode(&r)
	if err != nil {
		return 0, err
	}
	// The key of a new session is new: one that was deleted has ended.
	revision, err := s.sessions.Restore(ctx, r.Key, value, r.Lifetime)
	if errors.Is(err, state.ErrNotFound) {
		return 0, session.ErrUnknown
	}
	return revision, translate(err)
}

// Get implements [session.Store].
func (s *Store) Get(ctx context.Context, key string) (session.Record, error) {
	e, err := s.sessions.Get(ctx, key)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return session.Record{}, session.ErrUnknown
	case err != nil:
		return session.Record{}, translate(err)
	}
	return decode(key, e.Value, e.Revision)
}

// Update implements [session.Store].
func (s *Store) Update(ctx context.Context, r session.Record) (uint64, error) {
	value, err := encode(&r)
	if err != nil {
		return 0, err
	}
	revision, err := s.sessions.Update(ctx, r.Key, value, r.Revision, r.Lifetime)
	return revision, translate(err)
}

// Delete implements [session.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	return translate(s.sessions.Delete(ctx, key, 0))
}

func subject(key, stream string) string { return key + "." + stream }

// Append implements [session.Store]. A message that is larger than a part is stored in
// parts; the sequence is that of the last one.
func (s *Store) Append(ctx context.Context, key, stream string, e session.StoredEvent, after uint64) (uint64, error) {
	for rest := e.Message; ; {
		part := rest[:min(len(rest), partBytes)]
		rest = rest[len(part):]
		value, err := encodeEvent(&e, part, len(rest) > 0)
		if err != nil {
			return 0, err
		}
		expected := after
		if after, err = s.events.Append(ctx, subject(key, stream), value, state.AppendOptions{After: &expected}); err != nil {
			return 0, translate(err)
		}
		if len(rest) == 0 {
			return after, nil
		}
	}
}

// Last implements [session.Store].
func (s *Store) Last(ctx context.Context, key, stream string) (session.StoredEvent, error) {
	m, err := s.events.Last(ctx, subject(key, stream))
	switch {
	case errors.Is(err, state.ErrNotFound):
		return session.StoredEvent{}, session.ErrLost
	case err != nil:
		return session.StoredEvent{}, translate(err)
	}
	e, more, err := decodeEvent(m.Data, m.Sequence)
	e.Partial = more
	return e, err
}

// Follow implements [session.Store].
func (s *Store) Follow(ctx context.Context, key, stream string, from uint64, f func(session.StoredEvent) error) (uint64, error) {
	var parts parts
	next, err := s.events.Follow(ctx, subject(key, stream), from, func(m state.Message) error {
		e, more, err := decodeEvent(m.Data, m.Sequence)
		if err != nil {
			return err
		}
		if !parts.add(&e, more) {
			return nil
		}
		from = m.Sequence // where reading goes on if f fails
		if err := f(e); err != nil {
			return err
		}
		from = m.Sequence + 1
		return nil
	})
	if len(parts.message) == 0 {
		from = max(from, next)
	}
	return from, translate(err)
}

// parts are those of a message that has not arrived as a whole.
type parts struct {
	number  uint64
	message []byte
}

// add puts a part to those before it, and reports whether the message is whole. Parts of
// another message were never completed.
func (p *parts) add(e *session.StoredEvent, more bool) bool {
	if p.number != e.Number {
		p.message = nil
	}
	p.number = e.Number
	if !more && len(p.message) == 0 {
		return true
	}
	p.message = append(p.message, e.Message...)
	if more {
		return false
	}
	e.Message, p.message = p.message, nil
	return true
}

// Alive implements [session.Store].
func (s *Store) Alive(ctx context.Context, replica string) (bool, error) {
	alive, err := s.replicas.Alive(ctx, replica)
	if err != nil && ctx.Err() == nil {
		return false, fmt.Errorf("%w: %w", session.ErrUnavailable, err)
	}
	return alive, err
}

// Steady implements [session.Store].
func (s *Store) Steady() bool { return s.replicas.Steady() }

// Departed implements [session.Store].
func (s *Store) Departed() <-chan struct{} { return s.replicas.Departed() }

// Tell implements [session.Store].
func (s *Store) Tell(ctx context.Context, m session.Message) error {
	value, err := encodeMessage(&m)
	if err != nil {
		return err
	}
	return translate(s.channel.Tell(ctx, value))
}

// Ask implements [session.Store].
func (s *Store) Ask(ctx context.Context, replica string, m session.Message) (bool, error) {
	value, err := encodeMessage(&m)
	if err != nil {
		return false, err
	}
	said, err := s.channel.Ask(ctx, replica, value)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return false, session.ErrNoReplica
	case err != nil:
		return false, translate(err)
	}
	answer := new(statev1.ReplicaAnswer)
	if err := proto.Unmarshal(said, answer); err != nil {
		return false, fmt.Errorf("decode an answer: %w", err)
	}
	return !answer.GetUnexpected(), nil
}

// Run implements [session.Store].
func (s *Store) Run(ctx context.Context, o session.Observer) {
	var all sync.WaitGroup
	all.Go(func() {
		s.sessions.Watch(ctx, state.Watcher{Reset: o.Reset, Changed: func(e state.Entry) { s.changed(e, o) }})
	})
	all.Go(func() {
		s.channel.Serve(ctx, s.Self(), func(data []byte) []byte { return s.message(data, o) })
	})
	all.Wait()
}

// changed hears of a record.
func (s *Store) changed(e state.Entry, o session.Observer) {
	switch {
	case e.Gone:
		o.Gone(e.Key, e.Expired)
		return
	case e.Err != nil:
		s.opts.OnError(fmt.Errorf("session store: session %s: %w", e.Key, e.Err))
		return
	}
	r, err := decode(e.Key, e.Value, e.Revision)
	if err != nil {
		s.opts.OnError(err)
		return
	}
	o.Changed(r)
}

// message hears from another replica, and returns what to answer.
func (s *Store) message(data []byte, o session.Observer) []byte {
	m, err := decodeMessage(data)
	if err != nil {
		s.opts.OnError(err)
		return nil
	}
	out, err := proto.Marshal(&statev1.ReplicaAnswer{Unexpected: !o.Message(m)})
	if err != nil {
		s.opts.OnError(err)
	}
	return out
}

// translate turns an error of package state into one of package session.
func translate(err error) error {
	for _, one := range [...]struct{ from, to error }{
		{state.ErrConflict, session.ErrConflict}, {state.ErrExists, session.ErrConflict}, {state.ErrFull, session.ErrUnavailable},
		{state.ErrTooLarge, session.ErrLarge}, {state.ErrUnavailable, session.ErrUnavailable}, {state.ErrNoAnswer, session.ErrUnavailable},
		{state.ErrUnreadable, session.ErrUnavailable},
	} {
		if errors.Is(err, one.from) {
			return fmt.Errorf("%w: %w", one.to, err)
		}
	}
	return err
}
