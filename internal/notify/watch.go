// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// Times that no setting changes.
const (
	// backoffMin is the maximum of the first pause, so a backend that restarts at once is found at once.
	backoffMin = 100 * time.Millisecond
	// backoffMax is the maximum pause. A stream that lasted as long starts the backoff over.
	backoffMax = 30 * time.Second
	// finalPause is the maximum pause after a status that a retry does not change, such as NOT_FOUND: what it is about may
	// appear, but no one knows when.
	finalPause = 5 * time.Minute
	// linger is how long a stream without listeners runs on for the next reader.
	linger = 5 * time.Second
	// settled is how long a new stream must last until an earlier failure counts as over although no message has come: a
	// service may send one only when something changes. It is longer than a connection takes to fail.
	settled = 10 * time.Second
)

// Errors of [Watches.Listen] and [Watches.Read] beside [ErrClosed], when a stream would have to be started.
var (
	// ErrWatchesFull means that as many streams are running as may be.
	ErrWatchesFull = errors.New("watch: too many streams")
	// ErrWatchShare means that the caller has used up its share of them.
	ErrWatchShare = errors.New("watch: the caller's share of the streams is used up")
)

// WatchOptions configure [Watches]. Zero fields have defaults.
type WatchOptions struct {
	// Max is the maximum number of streams, Share the part of them that one caller may have started.
	Max   int
	Share peer.Rule
	// MaxBytes is the maximum size of a message that is kept.
	MaxBytes int
	// Ended, if set, learns of each stream that ended while somebody listened, and of the pause before it is opened again.
	// A nil error is an end with the status OK.
	Ended func(tool string, err *errmap.Error, pause time.Duration)
	// Random returns numbers in [0, 1), for the jitter.
	Random func() float64
}

// Watch describes what a listener or a reader wants.
type Watch struct {
	// Key identifies the stream: who may not see the messages of another's stream must have another key.
	Key string
	// Tool and Version are the tool behind the stream and what it was opened as, for [Watches.Renew].
	Tool, Version string
	// Caller is charged for a stream that is started.
	Caller string
	// Open opens the stream, and passes each message on until it ends. It is called on its own goroutine, again after each end,
	// and returns when ctx ends. The bytes of a message belong to each until it returns. Nil is the status OK.
	Open func(ctx context.Context, each func(message []byte)) *errmap.Error
	// Changed is called when there is something new to read, at most once per change. It must not block, and must not call the
	// Watches. A reader has none.
	Changed func()
}

// Watches runs the backend's streams behind watches: resources that are the newest message of a server stream. All listeners and
// readers with an equal key share one stream. The newest message of each is kept. A stream that ends is opened again with backoff
// while somebody listens. It ends with its last listener, and a short time after its last reader. It knows neither tools nor URIs:
// package offer opens the streams, checks callers and reads the messages. Make one with [NewWatches].
type Watches struct {
	opts    WatchOptions
	ctx     context.Context //nolint:containedctx // the end of all streams
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	isClosed bool
	streams  map[string]*stream
	charged  map[string]int64 // streams by caller
	stats    WatchStats
}

// WatchStats are counts of [Watches].
type WatchStats struct {
	// Running is the number of streams, Listeners that of all who listen to them, Bytes the size of all kept messages.
	Running, Listeners, Bytes int
	// Restarts counts streams that were opened again after they had ended.
	Restarts uint64
	// Full and Over count refused streams: too many of all, or of one caller.
	Full, Over uint64
	// TooLarge counts messages above the maximum size.
	TooLarge uint64
}

// NewWatches returns watches without streams. Close them after use.
func NewWatches(o WatchOptions) *Watches {
	defaults.Fill(&o.Max, defaults.MaxWatches)
	defaults.Fill(&o.MaxBytes, defaults.MaxWatchBytes)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	e := &Watches{opts: o, streams: map[string]*stream{}, charged: map[string]int64{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// Listener gets the changes of its watches. Make one with [Watches.Listen].
type Listener struct {
	stream *stream
	watch  Watch
	isGone bool // guarded by the Watches
}

// Listen has changes of a stream reported until the Listener is closed. The stream is started if it does not run.
func (e *Watches) Listen(watch Watch) (*Listener, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.join(&watch)
	if err != nil {
		return nil, err
	}
	l := &Listener{stream: s, watch: watch}
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
	if l.isGone {
		return
	}
	l.isGone = true
	s.listeners = slices.DeleteFunc(s.listeners, func(other *Listener) bool { return other == l })
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
func (e *Watches) Read(ctx context.Context, watch Watch) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.join(&watch)
	if err != nil {
		return nil, err
	}
	s.readers++
	defer func() {
		s.readers--
		s.lingerUntil = time.Now().Add(linger)
		s.settleIdle()
	}()
	for !s.hasState() {
		changed := s.changed
		e.mu.Unlock()
		select {
		case <-changed:
			e.mu.Lock()
		case <-ctx.Done():
			e.mu.Lock()
			return nil, context.Cause(ctx)
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.value, nil
}

// join finds or starts the stream of a watch. The Watches are locked.
func (e *Watches) join(watch *Watch) (*stream, error) {
	if e.isClosed {
		return nil, ErrClosed
	}
	if s := e.streams[watch.Key]; s != nil {
		s.spare = watch
		return s, nil
	}
	if err := e.admit(watch.Caller); err != nil {
		return nil, err
	}
	s := &stream{
		engine: e, key: watch.Key, tool: watch.Tool, version: watch.Version, caller: watch.Caller, spare: watch,
		changed: make(chan struct{}), again: make(chan struct{}, 1),
	}
	s.ctx, s.stop = context.WithCancel(e.ctx)
	e.streams[watch.Key] = s
	e.charged[watch.Caller]++
	e.stats.Running++
	e.running.Go(s.run)
	return s, nil
}

// admit refuses one stream too many. A stream that only lingers makes way: the oldest of all, or of the caller.
func (e *Watches) admit(caller string) error {
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
			idle.endForGood()
		case isFull:
			e.stats.Full++
			return ErrWatchesFull
		default:
			e.stats.Over++
			return ErrWatchShare
		}
	}
}

// Renew asks about each stream what its tool would be opened as now, and opens a stream again at once where that is
// something else.
func (e *Watches) Renew(version func(tool string) string) {
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
func (e *Watches) Close() {
	e.mu.Lock()
	e.isClosed = true
	for _, s := range e.streams {
		if !s.hasState() {
			s.err = errmap.Wrap(errmap.Unavailable, ErrClosed, errmap.Message("Tool service unavailable: the sidecar is shutting down; try another replica"))
			s.wake()
		}
		s.endForGood()
	}
	e.mu.Unlock()
	e.stop()
	e.running.Wait()
}

// Stats returns the counts.
func (e *Watches) Stats() WatchStats {
	if e == nil {
		return WatchStats{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// update changes a stream with the Watches locked, and then tells the listeners that change returns.
func (e *Watches) update(change func() []*Listener) {
	e.mu.Lock()
	listeners := slices.Clone(change())
	e.mu.Unlock()
	for _, l := range listeners {
		if l.watch.Changed != nil {
			l.watch.Changed()
		}
	}
}

// stream is one stream of the backend. All but key and the channels is guarded by the Watches.
type stream struct {
	engine        *Watches
	key           string
	tool, version string
	caller        string          // who is charged
	ctx           context.Context //nolint:containedctx // the end of the stream
	stop          context.CancelFunc
	isEnded       bool

	// listeners are in the order in which they came. readers is the number of reads that wait.
	listeners   []*Listener
	readers     int
	lingerUntil time.Time
	linger      *time.Timer
	// opener is the listener that the stream was opened for, nil if a reader. spare opens it while
	// there is no listener.
	opener *Listener
	spare  *Watch
	// attempt ends the stream that is open, for another; nil in a pause. again ends a pause.
	attempt context.CancelFunc
	again   chan struct{}
	reopens bool

	// value is the newest message, err what a reader gets in its place.
	value    []byte
	hasValue bool
	err      *errmap.Error
	// failures counts failed streams since one that lasted, breaks those since the last message.
	failures, breaks int
	changed          chan struct{} // closed and replaced at each change
}

// run opens the stream again and again.
func (s *stream) run() {
	for isFirst := true; ; isFirst = false {
		ctx, open := s.chooseCaller(isFirst)
		if open == nil {
			return
		}
		start := time.Now()
		holds := time.AfterFunc(settled, s.holds)
		err := open(ctx, s.keepNew)
		holds.Stop()
		pause, isOver := s.over(err, time.Since(start))
		if isOver {
			return
		}
		if pause <= 0 {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.again:
		case <-s.ctx.Done():
		}
		timer.Stop()
	}
}

// chooseCaller chooses in whose name the stream is opened; nil after its end.
func (s *stream) chooseCaller(isFirst bool) (context.Context, func(context.Context, func([]byte)) *errmap.Error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.isEnded {
		return nil, nil
	}
	if !isFirst {
		e.stats.Restarts++
	}
	open := s.spare.Open
	s.opener = nil
	if n := len(s.listeners); n > 0 {
		s.opener = s.listeners[n-1]
		open = s.opener.watch.Open
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.attempt, s.reopens = cancel, false
	return ctx, open
}

// keepNew keeps a message, if it is another one.
func (s *stream) keepNew(message []byte) {
	e := s.engine
	e.update(func() []*Listener {
		if s.isEnded || s.reopens {
			return nil
		}
		s.breaks = 0
		switch {
		case len(message) > e.opts.MaxBytes:
			e.stats.TooLarge++
			s.keep(nil, false)
			return s.fail(errmap.New(errmap.ResourceExhausted, errmap.Message("Result too large: the value has "+strconv.Itoa(len(message))+
				" bytes; the limit is "+strconv.Itoa(e.opts.MaxBytes)+" (--max-watch-bytes)")))
		case s.err == nil && s.hasValue && bytes.Equal(s.value, message):
			return nil
		}
		s.keep(bytes.Clone(message), true)
		s.err = nil
		return s.wake()
	})
}

func (s *stream) keep(value []byte, hasValue bool) {
	s.engine.stats.Bytes += len(value) - len(s.value)
	s.value, s.hasValue = value, hasValue
}

// fail has readers get an error, and returns who hears of it, if it is another one than before.
func (s *stream) fail(err *errmap.Error) []*Listener {
	before := s.err
	s.err = err
	if before != nil && before.Code == err.Code && before.BackendCode == err.BackendCode {
		return nil
	}
	return s.wake()
}

// holds notes that the stream has lasted for a while, so that what failed before does not count any more.
func (s *stream) holds() {
	s.engine.update(func() []*Listener {
		if s.isEnded || s.reopens || s.err == nil || s.breaks == 0 {
			return nil
		}
		s.breaks, s.err = 0, nil
		if !s.hasValue {
			return nil
		}
		return s.wake()
	})
}

// over notes how a stream has ended after some time, and returns the pause before the next one, unless it is over for good.
func (s *stream) over(err *errmap.Error, took time.Duration) (pause time.Duration, isOver bool) {
	e := s.engine
	isReported := false
	e.update(func() []*Listener {
		s.attempt()
		s.attempt = nil
		switch {
		case s.isEnded || s.ctx.Err() != nil:
			isOver = true
			return nil
		case s.reopens:
			return nil
		}
		if took >= backoffMax {
			s.failures = 0
		}
		told := s.judge(err)
		pause = s.pause(err != nil && !err.CanRetry(true))
		if isReported = len(s.listeners) > 0; !isReported {
			isOver = true
			s.endForGood()
		}
		return told
	})
	if isReported && e.opts.Ended != nil {
		e.opts.Ended(s.tool, err, pause)
	}
	return pause, isOver
}

// judge decides what readers get after an end. The status OK says nothing new about the value, and neither does the
// first break of a stream that had brought one: it is opened again at once.
func (s *stream) judge(err *errmap.Error) []*Listener {
	switch {
	case err == nil && s.hasState():
		return nil
	case err == nil:
		return s.fail(errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: the stream ended without a message")))
	}
	s.breaks++
	if err.CanRetry(true) && s.hasValue && s.err == nil && s.breaks == 1 {
		return nil
	}
	return s.fail(err)
}

// pause is the time before the next attempt: it doubles, and is shortened by up to half at random, so that not all
// streams come back at once.
func (s *stream) pause(isFinal bool) time.Duration {
	const doublings = 20 // reach the maximum, and overflow nothing
	d := backoffMax
	switch {
	case isFinal:
		d = finalPause
	case s.failures < doublings:
		d = min(backoffMax, backoffMin<<s.failures)
	}
	s.failures++
	return d/2 + time.Duration(s.engine.opts.Random()*float64(d/2))
}

// reopen ends the stream that is open, or the pause, and has it opened at once. The Watches are locked.
func (s *stream) reopen() {
	s.failures = 0
	if s.attempt != nil {
		s.reopens = true
		s.attempt()
		return
	}
	wake(s.again)
}

// wake wakes the readers, and returns the listeners that are told.
func (s *stream) wake() []*Listener {
	close(s.changed)
	s.changed = make(chan struct{})
	return s.listeners
}

// hasState reports whether a reader has something to get.
func (s *stream) hasState() bool { return s.hasValue || s.err != nil }

// isIdle reports whether no one needs the stream.
func (s *stream) isIdle() bool { return len(s.listeners) == 0 && s.readers == 0 }

// settleIdle ends a stream that no one needs, once it has lingered.
func (s *stream) settleIdle() {
	if s.isEnded || !s.isIdle() {
		return
	}
	left := time.Until(s.lingerUntil)
	if left <= 0 || s.attempt == nil {
		s.endForGood()
		return
	}
	if s.linger != nil {
		s.linger.Stop()
	}
	s.linger = time.AfterFunc(left, func() {
		s.engine.mu.Lock()
		defer s.engine.mu.Unlock()
		s.settleIdle()
	})
}

// endForGood ends the stream for good.
func (s *stream) endForGood() {
	if s.isEnded {
		return
	}
	e := s.engine
	s.isEnded = true
	s.stop()
	if s.linger != nil {
		s.linger.Stop()
	}
	e.stats.Bytes -= len(s.value)
	e.stats.Running--
	e.uncharge(s.caller)
	delete(e.streams, s.key)
}

// recharge charges a stream whose first caller has gone to one who listens.
func (s *stream) recharge() {
	if s.isEnded || len(s.listeners) == 0 || slices.ContainsFunc(s.listeners, func(l *Listener) bool { return l.watch.Caller == s.caller }) {
		return
	}
	s.engine.uncharge(s.caller)
	s.caller = s.listeners[0].watch.Caller
	s.engine.charged[s.caller]++
}

func (e *Watches) uncharge(caller string) {
	if e.charged[caller]--; e.charged[caller] <= 0 {
		delete(e.charged, caller)
	}
}
