// SPDX-License-Identifier: Apache-2.0

package correlate

import "sync"

// key is an id within its origin.
type key struct {
	origin Origin
	id     string
}

// shard is the part of the table that holds the calls of some origins. Only the
// methods of this file touch it, and each holds the lock from start to end; what
// they hand out is acted upon after they returned.
type shard struct {
	mu       sync.Mutex
	byID     map[key]*Call    // calls that have an id
	byOrigin map[Origin]*Call // the first of a list that holds all calls of an origin

	_ [40]byte // fills a cache line, so that neighbours do not slow each other down
}

// add lists c and reports false, without effect, if its id is taken.
func (s *shard) add(c *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.id.IsZero() {
		k := key{c.origin, c.id.Key()}
		if _, taken := s.byID[k]; taken {
			return false
		}
		s.byID[k] = c
	}
	c.listed = true
	c.next = s.byOrigin[c.origin]
	if c.next != nil {
		c.next.previous = c
	}
	s.byOrigin[c.origin] = c
	return true
}

// finish reports whether it was called for c for the first time, and whether c
// was still listed.
func (s *shard) finish(c *Call) (first, won bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !c.finished
	c.finished = true
	won = c.listed
	if won {
		s.drop(c)
	}
	return first, won
}

// take drops and returns the call with this key, or nil.
func (s *shard) take(k key) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[k]
	if c != nil {
		s.drop(c)
	}
	return c
}

// takeOrigin drops and returns all calls of an origin.
func (s *shard) takeOrigin(o Origin) []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*Call
	for c := s.byOrigin[o]; c != nil; c = s.byOrigin[o] {
		s.drop(c)
		calls = append(calls, c)
	}
	return calls
}

// all returns the listed calls.
func (s *shard) all() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*Call
	for _, first := range s.byOrigin {
		for c := first; c != nil; c = c.next {
			calls = append(calls, c)
		}
	}
	return calls
}

// drop takes a listed call out of both indexes. The lock is held.
func (s *shard) drop(c *Call) {
	c.listed = false
	if !c.id.IsZero() {
		delete(s.byID, key{c.origin, c.id.Key()})
	}
	switch {
	case c.previous != nil:
		c.previous.next = c.next
	case c.next != nil:
		s.byOrigin[c.origin] = c.next
	default:
		delete(s.byOrigin, c.origin)
	}
	if c.next != nil {
		c.next.previous = c.previous
	}
	c.previous, c.next = nil, nil
}
