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

	mu sync.Mutex
	// ring is the list, whose first request is behind it and the last one before it.
	ring    silent
	timer   *time.Timer // nil before the first request
	isArmed bool
}

// silent is a request in the list of a silence.
type silent struct {
	// of is what it is part of. Its method begin begins the stream, unless the request has been answered, and may block.
	of            interface{ begin() }
	due           time.Time
	before, after *silent // nil if it is in no list
}

// await lists a request.
func (l *silence) await(s *silent) {
	s.due = time.Now().Add(l.after)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isArmed {
		l.arm(l.after)
	}
	s.before, s.after = l.ring.before, &l.ring
	s.before.after, l.ring.before = s, s
}

// leave takes a request from the list, if it is there.
func (l *silence) leave(s *silent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.after != nil {
		s.unlist()
	}
}

// unlist takes a listed request from its list, whose lock is held.
func (s *silent) unlist() {
	s.before.after, s.after.before = s.after, s.before
	s.before, s.after = nil, nil
}

// arm sets the timer; l.mu is held.
func (l *silence) arm(in time.Duration) {
	l.isArmed = true
	if l.timer == nil {
		l.ring.before, l.ring.after = &l.ring, &l.ring
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
	for l.ring.after != &l.ring {
		s := l.ring.after
		if wait := s.due.Sub(now); wait > 0 {
			l.arm(wait)
			return
		}
		s.unlist()
		go s.of.begin()
	}
}
