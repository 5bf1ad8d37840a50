// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"context"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// stream is one stream of the backend. All but key and the channels is guarded by the engine.
type stream struct {
	engine        *Engine
	key           string
	tool, version string
	caller        string          // who is charged
	ctx           context.Context //nolint:containedctx // the end of the stream
	stop          context.CancelFunc
	ended         bool

	// listeners are in the order in which they came. readers is the number of reads that wait.
	listeners   []*Listener
	readers     int
	lingerUntil time.Time
	linger      *time.Timer
	// opener is the listener in whose name the stream is open; nil where it is that of a reader. spare opens it where
	// nobody listens.
	opener *Listener
	spare  Open
	// attempt ends the stream that is open, for another; nil in a pause. again ends a pause.
	attempt context.CancelFunc
	again   chan struct{}
	reopens bool

	// value is the newest message, err what a reader gets in its place.
	value    []byte
	hasValue bool
	err      *errmap.Error
	// failures are the ends since the last stream that held, breaks the failures since the last message.
	failures, breaks int
	changed          chan struct{} // closed and replaced at each change
}

// run opens the stream again and again.
func (s *stream) run() {
	e := s.engine
	isFirst := true
	for {
		e.mu.Lock()
		if s.ended {
			e.mu.Unlock()
			return
		}
		if !isFirst {
			e.stats.Restarts++
		}
		isFirst = false
		open := s.spare
		s.opener = nil
		if n := len(s.listeners); n > 0 {
			s.opener = s.listeners[n-1]
			open = s.opener.spec.Open
		}
		ctx, cancel := context.WithCancel(s.ctx)
		s.attempt, s.reopens = cancel, false
		e.mu.Unlock()

		start := time.Now()
		holds := time.AfterFunc(settled, s.holds)
		err := open(ctx, s.take)
		holds.Stop()
		cancel()
		pause, again := s.over(err, time.Since(start))
		if !again {
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

// take keeps a message, if it is another one.
func (s *stream) take(message []byte) {
	e := s.engine
	e.mu.Lock()
	if s.ended || s.reopens {
		e.mu.Unlock()
		return
	}
	s.breaks = 0
	var tell []func()
	switch {
	case len(message) > e.opts.MaxBytes:
		e.stats.TooLarge++
		s.keep(nil, false)
		tell = s.fail(e.tooLarge(len(message)))
	case s.err == nil && s.hasValue && bytes.Equal(s.value, message):
	default:
		s.keep(bytes.Clone(message), true)
		s.err = nil
		tell = s.wake()
	}
	e.mu.Unlock()
	for _, changed := range tell {
		changed()
	}
}

func (s *stream) keep(value []byte, hasValue bool) {
	s.engine.stats.Bytes += len(value) - len(s.value)
	s.value, s.hasValue = value, hasValue
}

// fail has readers get an error, and returns who is told, if it is another one than before.
func (s *stream) fail(err *errmap.Error) []func() {
	before := s.err
	s.err = err
	if before != nil && before.Code == err.Code && before.BackendCode == err.BackendCode {
		return nil
	}
	return s.wake()
}

// holds notes that the stream has lasted for a while, so that what failed before does not count any more.
func (s *stream) holds() {
	e := s.engine
	e.mu.Lock()
	var tell []func()
	if !s.ended && !s.reopens && s.err != nil && s.breaks > 0 {
		s.breaks, s.err = 0, nil
		if s.hasValue {
			tell = s.wake()
		}
	}
	e.mu.Unlock()
	for _, changed := range tell {
		changed()
	}
}

// over notes how a stream has ended after some time, and returns the pause before the next one. again is false where
// there is none.
func (s *stream) over(err *errmap.Error, took time.Duration) (pause time.Duration, again bool) {
	e := s.engine
	e.mu.Lock()
	s.attempt = nil
	switch {
	case s.ended || s.ctx.Err() != nil:
		e.mu.Unlock()
		return 0, false
	case s.reopens:
		e.mu.Unlock()
		return 0, true
	}
	if took >= BackoffMax {
		s.failures = 0
	}
	tell := s.judge(err)
	isFinal := err != nil && !err.CanRetry(true)
	pause = s.pause(isFinal)
	again = len(s.listeners) > 0
	if !again {
		s.end()
	}
	e.mu.Unlock()
	for _, changed := range tell {
		changed()
	}
	if again && e.opts.Ended != nil {
		e.opts.Ended(s.tool, err, pause)
	}
	return pause, again
}

// judge decides what readers get after an end. The status OK says nothing new about the value, and neither does the
// first break of a stream that had brought one: it is opened again at once.
func (s *stream) judge(err *errmap.Error) []func() {
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
	d := BackoffMax
	switch {
	case isFinal:
		d = FinalPause
	case s.failures < doublings:
		d = min(BackoffMax, BackoffMin<<s.failures)
	}
	s.failures++
	return d/2 + time.Duration(s.engine.opts.Random()*float64(d/2))
}

// reopen ends the stream that is open, or the pause, and has it opened at once. The engine is locked.
func (s *stream) reopen() {
	s.failures = 0
	if s.attempt != nil {
		s.reopens = true
		s.attempt()
		return
	}
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// wake wakes the readers, and returns how each listener is told.
func (s *stream) wake() []func() {
	close(s.changed)
	s.changed = make(chan struct{})
	out := make([]func(), 0, len(s.listeners))
	for _, l := range s.listeners {
		if l.spec.Changed != nil {
			out = append(out, l.spec.Changed)
		}
	}
	return out
}

// hasState reports whether a reader has something to get.
func (s *stream) hasState() bool { return s.hasValue || s.err != nil }

// isIdle reports whether nobody needs the stream.
func (s *stream) isIdle() bool { return len(s.listeners) == 0 && s.readers == 0 }

// settleIdle ends a stream that nobody needs, once it has lingered.
func (s *stream) settleIdle() {
	if s.ended || !s.isIdle() {
		return
	}
	left := time.Until(s.lingerUntil)
	if left <= 0 || s.attempt == nil {
		s.end()
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

// end ends the stream for good.
func (s *stream) end() {
	if s.ended {
		return
	}
	e := s.engine
	s.ended = true
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
	if s.ended || len(s.listeners) == 0 {
		return
	}
	for _, l := range s.listeners {
		if l.spec.Caller == s.caller {
			return
		}
	}
	s.engine.uncharge(s.caller)
	s.caller = s.listeners[0].spec.Caller
	s.engine.charged[s.caller]++
}

func (e *Engine) uncharge(caller string) {
	if e.charged[caller]--; e.charged[caller] <= 0 {
		delete(e.charged, caller)
	}
}
