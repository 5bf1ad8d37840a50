// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// maxTools bounds the tools that have an entry, maxShownTools those that Stats
// names. A catalog may hold more, but not that many that time out at a time.
const (
	maxTools      = 4096
	maxShownTools = 256
)

// tools holds calls of single tools back whose calls keep running out of time. A
// tool has an entry from its first timeout until a window has passed without one:
// where all tools answer in time, there is none, and calls pay for one look at that.
//
// These states are not the library's, because a place for a probe must be given back
// where the backend's breaker does not let the call through.
type tools struct {
	opts    Options
	entries atomic.Int32
	// opened and held are counts of all tools.
	opened, held atomic.Uint64

	mu     sync.Mutex
	of     map[string]*toolState
	sweeps time.Time // when the next sweep is due
}

// toolState is what is known of one tool.
type toolState struct {
	state State
	// round counts changes of the state, as in breaker.
	round          uint64
	until          time.Time // when an open one lets calls through to try
	trying, passed int       // probes under way, and answered
	last           time.Time // the last timeout
	recent         window
}

// toolPermit is the leave to call one tool.
type toolPermit struct {
	entry *toolState
	round uint64
	probe bool
}

// enter lets a call of a tool through, or answers it.
func (t *tools) enter(key string) (toolPermit, *errmap.Error) {
	if t == nil || key == "" || t.entries.Load() == 0 {
		return toolPermit{}, nil
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	s := t.of[key]
	switch {
	case s == nil:
		return toolPermit{}, nil
	case s.state == Closed:
		return toolPermit{entry: s, round: s.round}, nil
	case s.state == Open && now.Before(s.until):
		return toolPermit{}, t.hold(key, s.until.Sub(now))
	case s.state == Open:
		t.change(key, s, HalfOpen)
	}
	if s.trying+s.passed >= t.opts.Probes {
		return toolPermit{}, t.hold(key, heldHint)
	}
	s.trying++
	return toolPermit{entry: s, round: s.round, probe: true}, nil
}

// hold answers a call.
func (t *tools) hold(key string, wait time.Duration) *errmap.Error {
	t.held.Add(1)
	wait = max(wait, time.Millisecond)
	return errmap.Wrap(errmap.Unavailable, errHeld, errmap.RetryAfter(wait), errmap.Message(fmt.Sprintf(
		"Tool service unavailable: circuit breaker of %s open after too many timeouts (next probe in %v)",
		key, wait.Round(time.Millisecond))))
}

// leave counts the outcome of a call and reports whether the tool was closed off for
// it.
func (t *tools) leave(p toolPermit, key string, o outcome) (opened bool) {
	if t == nil || key == "" || o != ranOut && p.entry == nil && t.entries.Load() == 0 {
		return false
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[key]
	switch {
	case p.entry != nil && (s != p.entry || s.round != p.round):
		return false // it began in another state
	case s == nil && o != ranOut:
		return false
	case s == nil:
		if s = t.add(key, now); s == nil {
			return false
		}
	case p.entry == nil && s.state != Closed:
		return false
	}
	if p.probe {
		return t.tried(key, s, o, now)
	}
	switch o {
	case ranOut:
		s.last = now
		if all, late := s.recent.count(now, true); all >= uint(t.opts.MinCalls) && late*100 >= uint(t.opts.FailurePercent)*all {
			t.open(key, s, now)
			return true
		}
	case answered:
		s.recent.count(now, false)
	case unclear, failedOnTheWay: // which is the backend's matter
	}
	return false
}

// tried takes the outcome of a probe.
func (t *tools) tried(key string, s *toolState, o outcome, now time.Time) (opened bool) {
	s.trying--
	switch o {
	case ranOut:
		s.last = now
		t.open(key, s, now)
		return true
	case answered:
		if s.passed++; s.passed >= t.opts.Probes {
			t.forget(key, s)
		}
	case unclear, failedOnTheWay:
	}
	return false
}

func (t *tools) open(key string, s *toolState, now time.Time) {
	s.until = now.Add(t.opts.OpenFor)
	t.opened.Add(1)
	t.change(key, s, Open)
}

func (t *tools) change(key string, s *toolState, to State) {
	from := s.state
	s.state, s.trying, s.passed = to, 0, 0
	s.round++
	if t.opts.OnTool != nil && from != to {
		t.opts.OnTool(key, from, to)
	}
}

// add makes an entry; nil where there are too many.
func (t *tools) add(key string, now time.Time) *toolState {
	if len(t.of) >= maxTools {
		t.sweeps = time.Time{}
		if t.sweep(now); len(t.of) >= maxTools {
			return nil
		}
	}
	if t.of == nil {
		t.of = map[string]*toolState{}
	}
	s := &toolState{last: now, recent: newWindow(t.opts.Window)}
	t.of[key] = s
	t.entries.Store(int32(len(t.of)))
	return s
}

// forget lets calls of a tool through again.
func (t *tools) forget(key string, s *toolState) {
	t.change(key, s, Closed)
	delete(t.of, key)
	t.entries.Store(int32(len(t.of)))
}

// sweep forgets tools whose last timeout is longer ago than the window, once in a
// window. One that is held back keeps its entry for a window after its time is
// over, for its next call to be the one that tries.
func (t *tools) sweep(now time.Time) {
	if now.Before(t.sweeps) {
		return
	}
	t.sweeps = now.Add(t.opts.Window)
	for key, s := range t.of {
		end := s.last
		if s.state != Closed && s.until.After(end) {
			end = s.until
		}
		if s.trying == 0 && now.Sub(end) > t.opts.Window {
			t.forget(key, s)
		}
	}
}

// keep forgets the tools that there are no more.
func (t *tools) keep(exists func(key string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.of {
		if !exists(key) {
			t.forget(key, s)
		}
	}
}

// ToolBreaker is a tool whose circuit breaker is not closed.
type ToolBreaker struct {
	Tool  string
	State State
}

// notClosed names the first tools that are held back, in the order of their names,
// and counts the others.
func (t *tools) notClosed() (named []ToolBreaker, more int) {
	if t == nil || t.entries.Load() == 0 {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(time.Now())
	for key, s := range t.of {
		if s.state != Closed {
			named = append(named, ToolBreaker{key, s.state})
		}
	}
	slices.SortFunc(named, func(a, b ToolBreaker) int { return strings.Compare(a.Tool, b.Tool) })
	if len(named) > maxShownTools {
		named, more = named[:maxShownTools], len(named)-maxShownTools
	}
	return named, more
}
