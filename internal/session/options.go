// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// Defaults of Options.
const (
	// defaultIdle is longer than a pause in a conversation, and shorter than a working day in which abandoned sessions pile up.
	defaultIdle = 30 * time.Minute
	// DefaultMaxClient holds names and capabilities, with room to spare; what a client says beyond that is kept 10,000 times and
	// never asked for. An id has less room: see [maxID].
	DefaultMaxClient = 16 << 10
	// defaultMaxStreams is how many streams of one session are kept for resumption: far more than a client has open calls that
	// stream.
	defaultMaxStreams = 64
	// defaultMaxEvents and defaultMaxBytes bound what one stream keeps for a client that comes back: some minutes of progress,
	// or one large result.
	defaultMaxEvents = 256
	defaultMaxBytes  = 1 << 20
	// defaultMaxKept bounds what the streams of all sessions keep together: a part of the memory that a sidecar is usually
	// given.
	defaultMaxKept = 64 << 20
	// defaultKeep is how long a stream that has ended can still be resumed: a client that lost its connection comes back within
	// seconds.
	defaultKeep = 2 * time.Minute
	// defaultAskTimeout leaves a person time to answer, and no more.
	defaultAskTimeout = 10 * time.Minute
	// defaultMaxWatched is how many resources one session may watch, as many as one modern stream of changes.
	defaultMaxWatched = notify.MaxURIs
	// defaultMaxWatchedBytes is what the URIs of so many resources take, of 128 bytes each. The feed has one bound for all that
	// everybody watches, and one session must not use it up.
	defaultMaxWatchedBytes = 128 << 10
)

// Errors of a Manager.
var (
	// ErrUnknown: the session does not exist, or belongs to another caller.
	ErrUnknown = errors.New("session: unknown")
	// ErrFull: the limit is reached, and all sessions are in use.
	ErrFull = errors.New("session: too many sessions")
	// ErrClosed: the manager, or the session, has been closed.
	ErrClosed = errors.New("session: closed")
	// ErrLargeClient: the client's declaration exceeds its size limit.
	ErrLargeClient = errors.New("session: the client's capabilities are too large")
)

// Options configure a Manager. Zero fields have the defaults of this package.
type Options struct {
	// Max is the maximum number of sessions in memory, Idle how long one stays there without a use, Age how long an id is valid.
	Max       int
	Idle, Age time.Duration
	// Sealer seals ids. Nil: one with a key of this process.
	Sealer *keys.Sealer
	// Origin returns the scope of the ids of a client whose session another process opened. Nil: it is 0.
	Origin func() correlate.Origin
	// Share limits how much of MaxKept one caller may use. Over it, the caller's own oldest ended stream is dropped.
	Share peer.Rule
	// MaxClient is the maximum size of a client's declaration in bytes.
	MaxClient int
	// MaxStreams is the maximum number of resumable streams of one session. MaxEvents and MaxBytes limit the replay buffer of a
	// stream. Keep is its retention after the end of the stream.
	MaxStreams, MaxEvents, MaxBytes int
	Keep                            time.Duration
	// MaxKept is the maximum size of all replay buffers together. Above it, the oldest ended streams of the caller with the
	// largest buffers are dropped early, and running streams keep only unread events. A caller over its share loses its own
	// streams in the same way. Above the share that it has while no other caller keeps anything, it also loses unread events.
	MaxKept int
	// AskTimeout is the maximum time for a client to answer a question.
	AskTimeout time.Duration
	// MaxWatched is the maximum number of resource subscriptions of one session, MaxWatchedBytes the maximum total length of
	// their URIs.
	MaxWatched, MaxWatchedBytes int
	// Feed delivers changes. Nil: nothing changes.
	Feed *notify.Feed
	// Replicas are the other replicas of the deployment; [Manager.Run] hears them. Nil: there are none, or nothing is forwarded.
	Replicas *Replicas
	// Cancel cancels a request whose cancellation came to another replica. Cut ends what was begun in a session that another
	// replica ended. Both are as [correlate.Table] has them, and may be nil.
	Cancel func(origin correlate.Origin, id jsonrpc.ID, reason string) bool
	Cut    func(correlate.Origin) int
	// Rand is the random source for nonces and for ids that are not sealed, used by one goroutine at a time. Nil: crypto/rand.
	Rand io.Reader
	// Ended is called once after the end of each session that a client got here, on the goroutine that ended it, so that it may
	// run concurrently. Nil is not called.
	Ended func(Ended)
}

func (o Options) withDefaults() Options {
	defaults.Fill(&o.Max, defaults.MaxSessions)
	defaults.Fill(&o.Idle, defaultIdle)
	defaults.Fill(&o.Age, defaults.MaxSessionAge)
	defaults.Fill(&o.MaxClient, DefaultMaxClient)
	defaults.Fill(&o.MaxStreams, defaultMaxStreams)
	defaults.Fill(&o.MaxEvents, defaultMaxEvents)
	defaults.Fill(&o.MaxBytes, defaultMaxBytes)
	defaults.Fill(&o.MaxKept, defaultMaxKept)
	defaults.Fill(&o.Keep, defaultKeep)
	defaults.Fill(&o.AskTimeout, defaultAskTimeout)
	defaults.Fill(&o.MaxWatched, defaultMaxWatched)
	defaults.Fill(&o.MaxWatchedBytes, defaultMaxWatchedBytes)
	if o.Origin == nil {
		o.Origin = func() correlate.Origin { return 0 }
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return o
}

// Ended describes the end of a session in the process that opened it, for [Options].
type Ended struct {
	// Version is the revision of MCP, empty if the client is not known to have one.
	Version string
	// Principal is the caller.
	Principal string
	// Evicted: another session took its place, at a limit.
	Evicted bool
	// Took is the time from initialize to the end.
	Took time.Duration
}
