// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"errors"
	"io"
	"time"

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
	// ErrUnknown: there is no such session, or it is another caller's.
	ErrUnknown = errors.New("session: unknown")
	// ErrFull: there is no room for another session, because all are in use.
	ErrFull = errors.New("session: too many sessions")
	// ErrShare: the caller has its share of the sessions, and all of them are in use.
	ErrShare = errors.New("session: too many sessions of this caller")
	// ErrClosed: the manager, or the session, has been closed.
	ErrClosed = errors.New("session: closed")
	// ErrLargeClient: the client declares more than is kept of it.
	ErrLargeClient = errors.New("session: the client's capabilities are too large")
)

// Options configure a Manager. Zero fields take the defaults of this package.
type Options struct {
	// Max is how many sessions there may be, Idle how long one may be unused.
	Max  int
	Idle time.Duration
	// Share is how much of Max and of MaxKept one caller may hold. Beyond it, its own
	// longest unused session ends, and its own longest ended stream is forgotten, to
	// make room.
	Share share.Rule
	// MaxClient bounds the bytes of what is kept of what a client said when it
	// opened its session.
	MaxClient int
	// MaxStreams bounds the streams of one session that can be resumed, MaxEvents
	// and MaxBytes what one of them keeps; Keep is how long it is kept after its
	// end.
	MaxStreams, MaxEvents, MaxBytes int
	Keep                            time.Duration
	// MaxKept bounds the bytes of what all streams keep. Where it is reached, the
	// longest ended ones of the caller that keeps most are forgotten early, and those
	// that go on keep only what is still unread. A caller beyond its share loses
	// its own alike; beyond what its share is while the others keep nothing, it loses
	// what it has not read, too.
	MaxKept int
	// AskTimeout is how long a client may take to answer a question.
	AskTimeout time.Duration
	// MaxWatched is how many resources one session may watch, MaxWatchedBytes how
	// long their URIs may be together.
	MaxWatched, MaxWatchedBytes int
	// Feed is where changes come from. Nil: nothing changes.
	Feed *feed.Hub
	// Rand is where ids come from, one reader at a time. Nil: crypto/rand.
	Rand io.Reader
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
