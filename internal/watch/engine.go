// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Times that no setting changes.
const (
	// BackoffMin is the maximum of the first pause, so a backend that restarts at once is found at once.
	BackoffMin = 100 * time.Millisecond
	// BackoffMax is the maximum pause. A stream that lasted as long starts the backoff over.
	BackoffMax = 30 * time.Second
	// FinalPause is the maximum pause after a status that a retry does not change, such as NOT_FOUND: what it is about may
	// appear, but nobody knows when.
	FinalPause = 5 * time.Minute
	// Linger is how long a stream without listeners runs on for the next reader.
	Linger = 5 * time.Second
	// settled is how long a new stream must last until an earlier failure counts as over although no message has come: a
	// service may send one only when something changes. It is longer than a connection takes to fail.
	settled = 10 * time.Second
)

// Errors of [Engine.Listen] and [Engine.Read], when a stream would have to be started.
var (
	// ErrFull means that as many streams are running as may be.
	ErrFull = errors.New("watch: too many streams")
	// ErrShare means that the caller has used up its share of them.
	ErrShare = errors.New("watch: the caller's share of the streams is used up")
	// ErrClosed means that the engine has been closed.
	ErrClosed = errors.New("watch: closed")
)

// Options configure an [Engine]. Zero fields have defaults.
type Options struct {
	// Max is the maximum number of streams, Share the part of them that one caller may have started.
	Max   int
	Share share.Rule
	// MaxBytes is the maximum size of a message that is kept.
	MaxBytes int
	// Ended, if set, is told of each stream that ended while somebody listened, and of the pause before it is opened again.
	// A nil error is an end with the status OK.
	Ended func(tool string, err *errmap.Error, pause time.Duration)
	// Random returns numbers in [0, 1), for the jitter.
	Random func() float64
}

// Open opens the stream, and passes each message on until it ends. It is called on a goroutine of its own, again after
// each end, and returns when ctx ends. The bytes of a message belong to each until it returns. Nil is the status OK.
type Open func(ctx context.Context, each func(message []byte)) *errmap.Error

// Spec describes what a listener or a reader wants.
type Spec struct {
	// Key identifies the stream: who may not see the messages of another's stream must have another key.
	Key string
	// URI is the resource as the listener names it.
	URI string
	// Tool and Version are the tool behind the stream and what it was opened as, for [Engine.Renew].
	Tool, Version string
	// Caller is charged for a stream that is started.
	Caller string
	Open   Open
	// Changed is called when there is something new to read, at most once per change. It must not block, and must not
	// call the engine. A reader has none.
	Changed func()
}

// Engine runs the streams. Make one with [New].
type Engine struct {
	opts    Options
	ctx     context.Context //nolint:containedctx // the engine's own end
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	isClosed bool
	streams  map[string]*stream
	charged  map[string]int64 // streams by caller
	stats    Stats
}

// Stats are counts of an [Engine].
type Stats struct {
	// Running is the number of streams, Listeners that of all who listen to them, Bytes the size of all kept messages.
	Running, Listeners, Bytes int
	// Restarts counts streams that were opened again after they had ended.
	Restarts uint64
	// Full and Over count refused streams: too many of all, or of one caller.
	Full, Over uint64
	// TooLarge counts messages above the maximum size.
	TooLarge uint64
}

// New returns an Engine. Close it after use.
func New(o Options) *Engine {
	defaults.Fill(&o.Max, defaults.MaxWatches)
	defaults.Fill(&o.MaxBytes, defaults.MaxWatchBytes)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	e := &Engine{opts: o, streams: map[string]*stream{}, charged: map[string]int64{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// Listener is somebody who is told of changes. Make one with [Engine.Listen].
type Listener struct {
	stream *stream
	spec   Spec
	gone   bool // guarded by the engine
}

// Listen has changes of a stream reported until the Listener is closed. The stream is started if it does not run.
func (e *Engine) Listen(spec Spec) (*Listener, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.join(&spec)
	if err != nil {
		return nil, err
	}
	l := &Listener{stream: s, spec: spec}
	s.listeners = append(s.listeners, l)
	e.stats.Listeners++
	return l, nil
}

// Close ends it. No change is reported afterwards, except one that is on its way. It may be called again.
func (l *Listener) Close() { l.leave(false) }

// Revoke is Close for a listener whose caller lost its permission: a stream that was opened in its name is opened again
// in the name of another.
func (l *Listener) Revoke() { l.leave(true) }

func (l *Listener) leave(isRevoked bool) {
	s := l.stream
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.gone {
		return
	}
	l.gone = true
	for i, other := range s.listeners {
		if other == l {
			s.listeners = append(s.listeners[:i:i], s.listeners[i+1:]...)
			break
		}
	}
	e.stats.Listeners--
	switch {
	case len(s.listeners) == 0:
		s.settleIdle()
	case isRevoked && s.opener == l:
		s.reopen()
	}
	s.recharge()
}

// Read returns the newest message of a stream: the one that is kept, or the first that comes. It waits until ctx ends;
// then the error is the context's cause. The message must not be changed. Errors of the stream are *errmap.Error.
func (e *Engine) Read(ctx context.Context, spec Spec) ([]byte, error) {
	e.mu.Lock()
	s, err := e.join(&spec)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	s.readers++
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		s.readers--
		s.lingerUntil = time.Now().Add(Linger)
		s.settleIdle()
	}()
	for {
		if s.err != nil {
			defer e.mu.Unlock()
			return nil, s.err
		}
		if s.hasValue {
			defer e.mu.Unlock()
			return s.value, nil
		}
		changed := s.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		e.mu.Lock()
	}
}

// join finds or starts the stream of a spec. The engine is locked.
func (e *Engine) join(spec *Spec) (*stream, error) {
	if e.isClosed {
		return nil, ErrClosed
	}
	if s := e.streams[spec.Key]; s != nil {
		s.spare = spec.Open
		return s, nil
	}
	if err := e.admit(spec.Caller); err != nil {
		return nil, err
	}
	s := &stream{
		engine: e, key: spec.Key, tool: spec.Tool, version: spec.Version, caller: spec.Caller, spare: spec.Open,
		changed: make(chan struct{}), again: make(chan struct{}, 1),
	}
	s.ctx, s.stop = context.WithCancel(e.ctx)
	e.streams[spec.Key] = s
	e.charged[spec.Caller]++
	e.stats.Running++
	e.running.Go(s.run)
	return s, nil
}

// admit refuses one stream too many. A stream that only lingers makes way: the oldest of all, or of the caller.
func (e *Engine) admit(caller string) error {
	for {
		isFull := len(e.streams) >= e.opts.Max
		if !isFull && e.opts.Share.Allows(e.charged[caller], 1, int64(len(e.streams)), int64(e.opts.Max)) {
			return nil
		}
		var idle *stream
		for _, s := range e.streams {
			if s.isIdle() && (isFull || s.caller == caller) && (idle == nil || s.lingerUntil.Before(idle.lingerUntil)) {
				idle = s
			}
		}
		switch {
		case idle != nil:
			idle.end()
		case isFull:
			e.stats.Full++
			return ErrFull
		default:
			e.stats.Over++
			return ErrShare
		}
	}
}

// Renew asks about each stream what its tool would be opened as now, and opens a stream again at once where that is
// something else.
func (e *Engine) Renew(version func(tool string) string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		if now := version(s.tool); now != s.version {
			s.version = now
			s.reopen()
		}
	}
}

// Close ends all streams and waits for them. It may be called again.
func (e *Engine) Close() {
	e.mu.Lock()
	e.isClosed = true
	for _, s := range e.streams {
		if !s.hasState() {
			s.err = errmap.Wrap(errmap.Unavailable, ErrClosed, errmap.Message("Tool service unavailable: the sidecar is shutting down; try another replica"))
			s.wake()
		}
		s.end()
	}
	e.mu.Unlock()
	e.stop()
	e.running.Wait()
}

// Stats returns the counts.
func (e *Engine) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// tooLarge is the error of a message that is not kept.
func (e *Engine) tooLarge(size int) *errmap.Error {
	return errmap.New(errmap.ResourceExhausted, errmap.Message("Result too large: the value has "+strconv.Itoa(size)+
		" bytes; the limit is "+strconv.Itoa(e.opts.MaxBytes)+" (--max-watch-bytes)"))
}
