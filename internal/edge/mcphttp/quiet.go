// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"sync"
	"time"
)

// silence finds the requests that have been answered with nothing for a while, and begins
// their streams, because proxies and clients give up on a response without a byte. All wait
// equally long, so that they are due in the order in which they came and one timer does for
// all of them. It is left running when requests end: those that are answered in time, nearly
// all, then cost a place in a list, and no timer.
type silence struct {
	after time.Duration

	mu          sync.Mutex
	first, last *silent
	timer       *time.Timer
	isArmed     bool
}

// silent is a request in the list of a silence.
type silent struct {
	// of is what it is part of. Its method begin begins the stream, unless the request has been answered, and may block.
	of            interface{ begin() }
	due           time.Time
	before, after *silent
	isListed      bool
}

// await lists a request.
func (l *silence) await(s *silent) {
	s.due = time.Now().Add(l.after)
	l.mu.Lock()
	defer l.mu.Unlock()
	s.isListed, s.before = true, l.last
	if l.last == nil {
		l.first = s
	} else {
		l.last.after = s
	}
	l.last = s
	if !l.isArmed {
		l.arm(l.after)
	}
}

// leave takes a request from the list, if it is there.
func (l *silence) leave(s *silent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlist(s)
}

// unlist is leave; l.mu is held.
func (l *silence) unlist(s *silent) {
	if !s.isListed {
		return
	}
	if s.before == nil {
		l.first = s.after
	} else {
		s.before.after = s.after
	}
	if s.after == nil {
		l.last = s.before
	} else {
		s.after.before = s.before
	}
	s.before, s.after, s.isListed = nil, nil, false
}

// arm sets the timer; l.mu is held.
func (l *silence) arm(in time.Duration) {
	l.isArmed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(in, l.look)
		return
	}
	l.timer.Reset(in)
}

// look begins the streams that are due. Each has a goroutine, because a reader may be slow.
func (l *silence) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isArmed = false
	now := time.Now()
	for l.first != nil {
		s := l.first
		if wait := s.due.Sub(now); wait > 0 {
			l.arm(wait)
			return
		}
		l.unlist(s)
		go s.of.begin()
	}
}
