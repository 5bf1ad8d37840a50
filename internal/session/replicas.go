// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// ErrUnavailable means that another replica, or the state that replicas share, cannot be reached now. What was asked for may have happened.
var ErrUnavailable = errors.New("session: the shared state of sessions is unavailable")

// errNoReplica: there is no such replica any more.
var errNoReplica = errors.New("session: the replica is gone")

const (
	// ChannelName is the kind of the channel between replicas.
	ChannelName = "replicas"
	// maxEndedBytes is room for some 100,000 ended ids.
	maxEndedBytes = 32 << 20
	// maxEndedValue bounds the value of an ended id, which says nothing, with the headers of its message.
	maxEndedValue = 1 << 10
)

// EndedBucket is the bucket of ended ids.
func EndedBucket() state.BucketOptions {
	return state.BucketOptions{Name: "ended", MaxBytes: maxEndedBytes, MaxValueBytes: maxEndedValue}
}

// Replicas are the replicas of a deployment: the channel between them, and the ids that clients have ended, as a
// [state.Channel] and a [state.Bucket] have them.
type Replicas struct {
	// Self is the name of this one, which no other process has.
	Self string
	// Gone reports whether a replica that does not answer has ended, and is not cut off.
	Gone    func(ctx context.Context, replica string) (bool, error)
	Channel interface {
		Tell(ctx context.Context, data []byte) error
		Ask(ctx context.Context, replica string, data []byte) ([]byte, error)
		Serve(ctx context.Context, replica string, answer func([]byte) []byte)
	}
	Ended interface {
		Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error)
		Watch(ctx context.Context, w state.Watcher)
	}
}

// Run hears other replicas until ctx ends. Without any it returns at once.
func (m *Manager) Run(ctx context.Context) {
	r := m.opts.Replicas
	if r == nil {
		return
	}
	var all sync.WaitGroup
	all.Go(func() { r.Channel.Serve(ctx, r.Self, m.hear) })
	all.Go(func() {
		r.Ended.Watch(ctx, state.Watcher{Changed: func(e state.Entry) {
			var k key
			if n, err := base64.RawURLEncoding.Decode(k[:], []byte(e.Key)); err == nil && n == len(k) && !e.Gone {
				m.left(k)
			}
		}})
	})
	all.Wait()
}

// endEverywhere has an id refused at all replicas. The error is [ErrUnavailable] or the cause of ctx.
func (m *Manager) endEverywhere(ctx context.Context, k key) error {
	if m.opts.Replicas == nil {
		return nil
	}
	_, err := m.opts.Replicas.Ended.Create(ctx, k.text(), nil, m.opts.Age)
	if err == nil || errors.Is(err, state.ErrExists) {
		return nil
	}
	return unavailable(ctx, err)
}

func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// encode writes a message about the session.
func (s *Session) encode(msg *statev1.ReplicaMessage) ([]byte, error) {
	msg.SessionId, msg.Principal = s.id, s.principal
	data, err := proto.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("session: encode a message: %w", err)
	}
	return data, nil
}

// tell sends a message to all replicas.
func (s *Session) tell(ctx context.Context, msg *statev1.ReplicaMessage) error {
	data, err := s.encode(msg)
	if err != nil {
		return err
	}
	if err := s.manager.opts.Replicas.Channel.Tell(ctx, data); err != nil {
		return unavailable(ctx, err)
	}
	return nil
}

// ask sends a message to one replica. The errors are [errNoReplica], [ErrUnavailable] and the cause of ctx.
func (s *Session) ask(ctx context.Context, replica string, msg *statev1.ReplicaMessage) (*statev1.ReplicaAnswer, error) {
	data, err := s.encode(msg)
	if err != nil {
		return nil, err
	}
	said, err := s.manager.opts.Replicas.Channel.Ask(ctx, replica, data)
	if err != nil {
		if errors.Is(err, state.ErrNotFound) {
			if gone, goneErr := s.manager.opts.Replicas.Gone(ctx, replica); gone && goneErr == nil {
				return nil, errNoReplica
			}
		}
		return nil, unavailable(ctx, err)
	}
	answer := new(statev1.ReplicaAnswer)
	if err := proto.Unmarshal(said, answer); err != nil {
		return nil, fmt.Errorf("session: decode an answer: %w", err)
	}
	return answer, nil
}

// hear handles a message of a replica.
func (m *Manager) hear(data []byte) []byte {
	in, out := new(statev1.ReplicaMessage), &statev1.ReplicaAnswer{Unexpected: true}
	if err := proto.Unmarshal(data, in); err == nil {
		out = m.answer(in)
	}
	said, _ := proto.Marshal(out) // its texts are the product's own
	return said
}

func (m *Manager) answer(in *statev1.ReplicaMessage) *statev1.ReplicaAnswer {
	unexpected := &statev1.ReplicaAnswer{Unexpected: true}
	if change, ok := in.GetKind().(*statev1.ReplicaMessage_Change); ok {
		return m.change(in, change.Change)
	}
	k := keyOf(in.GetSessionId())
	m.mu.Lock()
	s := m.byKey[k]
	m.mu.Unlock()
	if s == nil || s.principal != in.GetPrincipal() {
		return unexpected
	}
	switch kind := in.GetKind().(type) {
	case *statev1.ReplicaMessage_Answer:
		a := kind.Answer
		if s.answered(a.GetId(), reply{result: a.GetResult(), isErr: a.GetIsError(), failed: a.GetErrorMessage()}) != nil {
			return unexpected
		}
	case *statev1.ReplicaMessage_Cancel:
		if id, err := jsonrpc.ParseID(kind.Cancel.GetRequestId()); err == nil && m.opts.Cancel != nil {
			m.opts.Cancel(s.origin, id, kind.Cancel.GetReason())
		}
	case *statev1.ReplicaMessage_Facts:
		s.adopt(kind.Facts)
	default: // of another release
		return unexpected
	}
	return &statev1.ReplicaAnswer{}
}

// change changes what a session has learned whose home this is.
func (m *Manager) change(in *statev1.ReplicaMessage, c *statev1.SessionChange) *statev1.ReplicaAnswer {
	s, err := m.find(in.GetPrincipal(), in.GetSessionId())
	if err != nil {
		return &statev1.ReplicaAnswer{Unexpected: true}
	}
	defer s.Release()
	if proto.Size(c) > 0 {
		if err := s.learnHere(context.Background(), c, nil); err != nil {
			return &statev1.ReplicaAnswer{Unexpected: !errors.Is(err, ErrTooMany), TooMany: errors.Is(err, ErrTooMany)}
		}
	}
	return &statev1.ReplicaAnswer{Facts: s.facts()}
}

// isHome reports whether this replica keeps what the session learns.
func (s *Session) isHome() bool {
	if r := s.manager.opts.Replicas; r != nil && !s.expires.IsZero() {
		return s.home == r.Self
	}
	return true
}

// hasLearned reports whether the session knows more than its id.
func (s *Session) hasLearned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version > 0
}

// facts are what the session has learned, as replicas send it.
func (s *Session) facts() *statev1.SessionFacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &statev1.SessionFacts{Version: s.version, Level: s.level, Watched: s.watched}
}

// learn changes what the session has learned, at its home, which tells all replicas. Where that is gone, it is kept here. as is
// how a resource is watched here. The errors are [ErrTooMany], [ErrUnknown], [ErrClosed], [ErrUnavailable], those of the feed
// and the cause of ctx; on an error nothing changes.
func (s *Session) learn(ctx context.Context, c *statev1.SessionChange, as *scoped) error {
	if s.isHome() {
		return s.learnHere(ctx, c, as)
	}
	said, err := s.ask(ctx, s.home, &statev1.ReplicaMessage{Kind: &statev1.ReplicaMessage_Change{Change: c}})
	switch {
	case errors.Is(err, errNoReplica):
		return s.learnHere(ctx, c, as)
	case err != nil:
		return err
	case said.GetTooMany():
		return ErrTooMany
	case said.GetUnexpected():
		return ErrUnknown
	}
	s.adopt(said.GetFacts())
	return s.change(c, as)
}

// learnHere changes what the session has learned, and tells all replicas.
func (s *Session) learnHere(ctx context.Context, c *statev1.SessionChange, as *scoped) error {
	if err := s.change(c, as); err != nil {
		return err
	}
	s.mu.Lock()
	s.version++
	s.mu.Unlock()
	if s.manager.opts.Replicas != nil && !s.expires.IsZero() {
		_ = s.tell(ctx, &statev1.ReplicaMessage{Kind: &statev1.ReplicaMessage_Facts{Facts: s.facts()}}) // those who cannot hear it ask when they meet the session, or hear of the next change
	}
	return nil
}

// adopt takes over what the session's home knows, unless it is older than what is known.
func (s *Session) adopt(f *statev1.SessionFacts) {
	s.mu.Lock()
	if s.isClosed || f.GetVersion() <= s.version {
		s.mu.Unlock()
		return
	}
	s.version, s.level = f.GetVersion(), f.GetLevel()
	ended := s.rewatched(f.GetWatched())
	s.mu.Unlock()
	for _, w := range ended {
		w.stop()
	}
}

// catchUp asks the session's home, once, what it has learned before this replica met it. Where that cannot be reached, the
// session begins with what its id says.
func (s *Session) catchUp(ctx context.Context) {
	s.mu.Lock()
	isDue := !s.caughtUp
	s.caughtUp = true
	s.mu.Unlock()
	if !isDue || s.isNew || s.isHome() {
		return
	}
	said, err := s.ask(ctx, s.home, &statev1.ReplicaMessage{Kind: &statev1.ReplicaMessage_Change{Change: &statev1.SessionChange{}}})
	switch {
	case err == nil && said.GetFacts() != nil:
		s.adopt(said.GetFacts())
	case errors.Is(err, ErrUnavailable) && !errors.Is(err, state.ErrNoAnswer), ctx.Err() != nil:
		s.mu.Lock()
		s.caughtUp = false // it fails at once while NATS is away
		s.mu.Unlock()
	}
}

// questionMark ends the id of a question with the name of this replica, sealed for the session; s.mu is held.
func (s *Session) questionMark() string {
	r := s.manager.opts.Replicas
	if r == nil || s.expires.IsZero() {
		return ""
	}
	if s.mark == "" {
		sealed, err := s.manager.opts.Sealer.Seal(s.questionBinding(), []byte(r.Self))
		if err != nil {
			return "" // its answer has to come to this replica
		}
		s.mark = "." + sealed
	}
	return s.mark
}

func (s *Session) questionBinding() keys.Binding {
	return keys.Binding{Purpose: purposeQuestion, Principal: s.principal, Digest: keys.Digest(s.key[:]), TTL: s.manager.opts.Age}
}

// askedBy is the other replica that asked a question, by its id; "" where none did.
func (s *Session) askedBy(id string) string {
	r := s.manager.opts.Replicas
	_, mark, ok := strings.Cut(id, ".")
	if !ok || r == nil {
		return ""
	}
	name, err := s.manager.opts.Sealer.Open(s.questionBinding(), mark)
	if err != nil || string(name) == r.Self {
		return ""
	}
	return string(name)
}

// forward passes a response to the replica that asked. One that cannot be reached may still wait: the client can send it again.
func (s *Session) forward(ctx context.Context, replica, id string, r reply) error {
	said, err := s.ask(ctx, replica, &statev1.ReplicaMessage{Kind: &statev1.ReplicaMessage_Answer{Answer: &statev1.ClientAnswer{Id: id, Result: r.result, IsError: r.isErr, ErrorMessage: r.failed}}})
	switch {
	case errors.Is(err, errNoReplica):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case err == nil && said.GetUnexpected():
		return errUnexpected
	}
	return err
}

// Cancel cancels a request that runs at another replica, if any does. The error is [ErrUnavailable].
func (s *Session) Cancel(ctx context.Context, requestID []byte, reason string) error {
	if s.manager.opts.Replicas == nil || s.expires.IsZero() {
		return nil
	}
	return s.tell(ctx, &statev1.ReplicaMessage{Kind: &statev1.ReplicaMessage_Cancel{Cancel: &statev1.ClientCancel{RequestId: requestID, Reason: reason}}})
}
