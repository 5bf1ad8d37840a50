// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Errors of a Store.
var (
	// ErrUnavailable: the store cannot be used now. What was asked for may have happened.
	ErrUnavailable = errors.New("session: the store of sessions is unavailable")
	// ErrConflict: the record, or the stream, was written by another replica meanwhile.
	ErrConflict = errors.New("session: written by another replica")
	// ErrNoReplica: there is no such replica any more.
	ErrNoReplica = errors.New("session: the replica is gone")
)

// Store keeps sessions, and the events of their streams, for all replicas of a deployment.
// It knows sessions by keys, which say nothing about their ids. It is safe for concurrent
// use. Every error may also be the cause of ctx.
type Store interface {
	Records
	Streams
	Replicas
	// IsAvailable reports whether operations can be expected to succeed, without asking.
	IsAvailable() bool
	// Run tells the observer what there is and what happens, until ctx ends.
	Run(ctx context.Context, o Observer)
}

// Records keeps what is known of sessions.
type Records interface {
	// Create stores a new session, and returns the revision of its record. The errors are
	// [ErrConflict] where there is one, [ErrUnknown] where one was deleted, [ErrLarge] and [ErrUnavailable].
	Create(ctx context.Context, r Record) (uint64, error)
	// Get returns a session. The errors are [ErrUnknown] and [ErrUnavailable].
	Get(ctx context.Context, key string) (Record, error)
	// Update replaces a record that still has the given revision, and extends its lifetime.
	// The errors are [ErrConflict], also where it is gone, [ErrLarge] and [ErrUnavailable].
	Update(ctx context.Context, r Record) (uint64, error)
	// Delete deletes a session. It need not exist. The error is [ErrUnavailable].
	Delete(ctx context.Context, key string) error
}

// Streams keeps the events of the streams of sessions.
type Streams interface {
	// Append stores an event behind the last one of its stream, and returns its sequence. The
	// errors are [ErrConflict] where another event is the last one, [ErrLarge] and
	// [ErrUnavailable].
	Append(ctx context.Context, key, stream string, e StoredEvent, after uint64) (uint64, error)
	// Last returns the last event of a stream. The errors are [ErrLost] where there is none,
	// and [ErrUnavailable].
	Last(ctx context.Context, key, stream string) (StoredEvent, error)
	// Follow calls f with the events of a stream from a sequence on, in order and as they come,
	// until ctx ends, f returns an error, or the store is away. It returns the sequence to go
	// on from.
	Follow(ctx context.Context, key, stream string, from uint64, f func(StoredEvent) error) (next uint64, err error)
}

// Replicas knows the replicas, and carries messages between them.
type Replicas interface {
	// Self returns the id of this replica, which is letters and digits. It never changes.
	Self() string
	// Alive reports whether a replica is there. The error is [ErrUnavailable].
	Alive(ctx context.Context, replica string) (bool, error)
	// Steady reports whether this replica has been there for so long that one which is not there has departed. After an outage of
	// the store nobody is there at first.
	Steady() bool
	// Departed returns a channel that is closed when a replica may have departed.
	Departed() <-chan struct{}
	// Tell sends a message to all replicas. The error is [ErrUnavailable].
	Tell(ctx context.Context, m Message) error
	// Ask sends a message to one replica, and reports whether that had a use for it. The errors
	// are [ErrNoReplica] and [ErrUnavailable].
	Ask(ctx context.Context, replica string, m Message) (bool, error)
}

// Observer hears of what other replicas do, and of what this one did. Its functions are
// called one at a time and return quickly.
type Observer struct {
	// Changed is told a record that is new, or was written.
	Changed func(Record)
	// Gone is told that a session was deleted, or that its lifetime is over.
	Gone func(key string, expired bool)
	// Reset is told that everything is gone, because the store is another one.
	Reset func()
	// Message is told a message, and returns whether it had a use for it. It may be called
	// beside the others.
	Message func(Message) bool
}

// Record is a session as it is stored.
type Record struct {
	// Key is what the store knows the session by, Revision what an update compares.
	Key      string
	Revision uint64
	// Lifetime is how long the record is kept without another write.
	Lifetime time.Duration
	// Principal is the caller, Context what the client declared. They never change.
	Principal string
	Context   *outriggerv1.RequestContext
	Opened    time.Time
	Level     outriggerv1.LogLevel
	Watched   []Watched
	Declared  Lists
	// WrittenBy is the replica that wrote the record last.
	WrittenBy string
	// Teller is the replica that tells the client what belongs to no request.
	Teller string
	// Catalog is the fingerprint of the catalog that the client was told of.
	Catalog string
}

// Watched is a resource that a client is told of.
type Watched struct {
	URI string
	// IsWatch: its updates come from an RPC that streams, and that the teller has to call.
	IsWatch bool
}

// clone is a copy that can be changed.
func (r Record) clone() Record {
	r.Watched = slices.Clone(r.Watched)
	return r
}

// StoredEvent is an event of a stream as it is stored.
type StoredEvent struct {
	// Sequence is its place, which the store gives it.
	Sequence uint64
	// Replica is the one that appended it, Number its number among the events of the stream.
	Replica string
	Number  uint64
	// Message is empty for an event that only has an id. Last ends the stream.
	Message []byte
	Last    bool
	// Partial: it is a part of a message whose rest has not come. Only [Streams.Last] returns such.
	Partial bool
	// Begun describes the stream, on each of its events.
	Begun Begun
}

// Begun describes what a stream is for.
type Begun struct {
	// IsMain: for what belongs to no request.
	IsMain bool
	// RequestID is the id of its request as it came. Tool is what it calls, and Idempotent
	// whether that is idempotent.
	RequestID  []byte
	Tool       string
	Idempotent bool
	// Span is that of the request, as package tracing writes it; nil without tracing.
	Span []byte
}

// Message is what one replica tells others about a session. One of its parts is set.
type Message struct {
	Key    string
	Answer *Answer
	Cancel *Cancel
	Moved  *Moved
	// MayEnd asks whether the session is not in use, because another one needs its place.
	MayEnd bool
}

// Answer is the client's response to a question of another replica.
type Answer struct {
	ID      string
	Result  []byte
	IsError bool
	// Failed is the message of an error.
	Failed string
}

// Cancel is the client's cancellation of a request.
type Cancel struct {
	RequestID []byte
	Reason    string
}

// Moved says that a client reads a stream at another replica from now on.
type Moved struct {
	Stream, To string
	// At is when it began to, by the clock of that replica. The message does not concern who reads since then.
	At time.Time
}
