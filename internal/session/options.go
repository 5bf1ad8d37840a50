// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Defaults of Options.
const (
	// DefaultMaxClient holds names and capabilities, with room to spare; what a
	// client says beyond that is kept 10,000 times and never asked for.
	DefaultMaxClient = 16 << 10
	// DefaultMaxStreams is how many streams of one session are kept for
	// resumption: far more than a client has open calls that stream.
	DefaultMaxStreams = 64
	// DefaultMaxEvents and DefaultMaxBytes bound what one stream keeps for a
	// client that comes back: some minutes of progress, or one large result.
	DefaultMaxEvents = 256
	DefaultMaxBytes  = 1 << 20
	// DefaultMaxKept bounds what the streams of all sessions keep together: a part
	// of the memory that a sidecar is usually given.
	DefaultMaxKept = 64 << 20
	// DefaultKeep is how long a stream that has ended can still be resumed: a
	// client that lost its connection comes back within seconds.
	DefaultKeep = 2 * time.Minute
	// DefaultAskTimeout leaves a person time to answer, and no more.
	DefaultAskTimeout = 10 * time.Minute
	// DefaultMaxWatched is how many resources one session may watch, as many as
	// one modern stream of changes.
	DefaultMaxWatched = feed.MaxURIs
	// DefaultMaxWatchedBytes is what the URIs of so many resources take, of 128
	// bytes each. The feed has one bound for all that everybody watches, and one
	// session must not use it up.
	DefaultMaxWatchedBytes = 128 << 10
)

// Errors of a Manager.
var (
	// ErrUnknown: the session does not exist, or belongs to another caller.
	ErrUnknown = errors.New("session: unknown")
	// ErrFull: the limit is reached, and all sessions are in use.
	ErrFull = errors.New("session: too many sessions")
	// ErrShare: the caller exceeds its share of the sessions, and all of its sessions
	// are in use.
	ErrShare = errors.New("session: too many sessions of this caller")
	// ErrLarge: a message is too large for the store.
	ErrLarge = errors.New("session: the message is too large to be stored")
	// ErrClosed: the manager, or the session, has been closed.
	ErrClosed = errors.New("session: closed")
	// ErrLargeClient: the client's declaration exceeds its size limit.
	ErrLargeClient = errors.New("session: the client's capabilities are too large")
)

// Options configure a Manager. Zero fields have the defaults of this package.
type Options struct {
	// Max is the maximum number of sessions, Idle the maximum idle time of one.
	Max  int
	Idle time.Duration
	// Share limits how much of Max and of MaxKept one caller may use. Over it, the
	// caller's own least recently used session ends, and its own oldest ended stream
	// is dropped.
	Share share.Rule
	// MaxClient is the maximum size of a client's declaration in bytes.
	MaxClient int
	// MaxStreams is the maximum number of resumable streams of one session. MaxEvents
	// and MaxBytes limit the replay buffer of a stream. Keep is its retention after
	// the end of the stream.
	MaxStreams, MaxEvents, MaxBytes int
	Keep                            time.Duration
	// MaxKept is the maximum size of all replay buffers together. Above it, the
	// oldest ended streams of the caller with the largest buffers are dropped early,
	// and running streams keep only unread events. A caller over its share loses its
	// own streams in the same way. Above the share that it has while no other caller
	// keeps anything, it also loses unread events.
	MaxKept int
	// AskTimeout is the maximum time for a client to answer a question.
	AskTimeout time.Duration
	// MaxWatched is the maximum number of resource subscriptions of one session,
	// MaxWatchedBytes the maximum total length of their URIs.
	MaxWatched, MaxWatchedBytes int
	// Feed is the hub of changes. Nil: nothing changes.
	Feed *feed.Hub
	// Store keeps sessions for all replicas; [Manager.Run] follows it. Nil keeps them in this
	// process.
	Store Store
	// Catalog returns the fingerprint of the catalog that clients are told of. Needed with a Store.
	Catalog func() string
	// Orphaned returns the reply to a request whose replica stopped. Needed with a Store.
	Orphaned func(Begun) []byte
	// Cancel cancels a request whose cancellation came to another replica, by its id as it came.
	// Cut ends what was begun in a session that another replica ended. Both may be nil.
	Cancel func(origin correlate.Origin, requestID []byte, reason string)
	Cut    func(correlate.Origin)
	// Rand is the random source for ids, used by one goroutine at a time. Nil:
	// crypto/rand.
	Rand io.Reader
	// Ended is called once after the end of each session that a client got, on the goroutine
	// that ended it, so that it may run concurrently. Nil tells no one.
	Ended func(Ended)
}

func (o Options) withDefaults() Options {
	defaults.Fill(&o.Max, defaults.MaxSessions)
	defaults.Fill(&o.Idle, defaults.SessionIdleTimeout)
	defaults.Fill(&o.MaxClient, DefaultMaxClient)
	defaults.Fill(&o.MaxStreams, DefaultMaxStreams)
	defaults.Fill(&o.MaxEvents, DefaultMaxEvents)
	defaults.Fill(&o.MaxBytes, DefaultMaxBytes)
	defaults.Fill(&o.MaxKept, DefaultMaxKept)
	defaults.Fill(&o.Keep, DefaultKeep)
	defaults.Fill(&o.AskTimeout, DefaultAskTimeout)
	defaults.Fill(&o.MaxWatched, DefaultMaxWatched)
	defaults.Fill(&o.MaxWatchedBytes, DefaultMaxWatchedBytes)
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return o
}
