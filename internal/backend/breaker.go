// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// BreakerState is the state of a circuit breaker.
type BreakerState int32

// The states. The zero value is that of a breaker that has seen nothing, and of
// one that there is not.
const (
	// BreakerClosed: calls pass.
	BreakerClosed BreakerState = iota
	// BreakerOpen: calls fail fast until the open time has passed.
	BreakerOpen
	// BreakerHalfOpen: only the probe calls pass.
	BreakerHalfOpen
)

// String returns the state as logs and metrics name it.
func (s BreakerState) String() string { return [...]string{"closed", "open", "half_open"}[s] }

// BreakerStates returns all states, for metrics.
func BreakerStates() []BreakerState {
	return []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen}
}

// errHeld is the cause of an answer that the breaker gave.
var errHeld = errors.New("resilience: circuit breaker open")

// heldHint is what a caller is asked to wait while others already try whether the
// backend is back.
const heldHint = time.Second

// heldBack answers a call that a breaker keeps from the backend; which says what breaker, and why it is open.
func heldBack(which string, wait time.Duration) *errmap.Error {
	wait = max(wait, time.Millisecond)
	return errmap.Wrap(errmap.Unavailable, errHeld, errmap.RetryAfter(wait), errmap.Message(fmt.Sprintf(
		"Tool service unavailable: circuit breaker %s (next probe in %v)", which, wait.Round(time.Millisecond))))
}

// circuit is the state of one breaker. Its owner's lock guards it; state and round may be read without it.
type circuit struct {
	settings *configv1.Breaker
	changed  func(from, to BreakerState) // runs within the call that caused the change
	state    atomic.Int32
	// round counts changes of the state. An outcome counts only in the round in
	// which its call began: what was sent while the backend was there says nothing
	// about whether it is back.
	round          atomic.Uint64
	until          time.Time // when an open one lets calls through to try
	trying, passed int       // probes under way, and answered
	recent         window
}

// openFor is how long an open circuit lets no call through.
func (c *circuit) openFor() time.Duration { return c.settings.GetOpenFor().AsDuration() }

// permit is the permission to make one call.
type permit struct {
	circuit *circuit // nil where it admitted the call without a look at it
	round   uint64
	// probe is set if the circuit waits for the outcome of this call.
	probe bool
}

func (c *circuit) now() BreakerState { return BreakerState(c.state.Load()) }

// admit lets a call through, or returns how long its caller is to wait.
func (c *circuit) admit(now time.Time) (permit, time.Duration) {
	if c.now() == BreakerOpen {
		if wait := c.until.Sub(now); wait > 0 {
			return permit{}, wait
		}
		c.change(BreakerHalfOpen)
	}
	p := permit{circuit: c, round: c.round.Load(), probe: c.now() == BreakerHalfOpen}
	if p.probe {
		if c.trying >= int(c.settings.GetProbes()) {
			return permit{}, heldHint
		}
		c.trying++
	}
	return p, 0
}

// failsTooOften counts an outcome, and reports whether too many have failed. Only a failure says so: a success says that
// the backend is there, even where it completes the least number of calls.
func (c *circuit) failsTooOften(now time.Time, failed bool) bool {
	all, failures := c.recent.count(now, failed)
	return failed && all >= int(c.settings.GetMinCalls()) && failures*100 >= int(c.settings.GetFailurePercent())*all
}

// pass counts an answer to a probe.
func (c *circuit) pass() {
	if c.passed++; c.passed >= int(c.settings.GetProbes()) {
		c.change(BreakerClosed)
	}
}

// open keeps calls away for a while.
func (c *circuit) open(now time.Time) {
	c.until = now.Add(c.openFor())
	c.change(BreakerOpen)
}

func (c *circuit) change(to BreakerState) {
	from := BreakerState(c.state.Swap(int32(to)))
	c.round.Add(1)
	c.trying, c.passed = 0, 0
	c.changed(from, to)
}

// breaker is a circuit breaker: it refuses calls while most of them would fail. Nil refuses none.
type breaker struct {
	mu sync.Mutex // orders what is counted while there are failures
	circuit
	opts *GuardOptions

	silent       blackhole
	opened, held atomic.Uint64
	// lastFailure is when the last call failed, in nanoseconds of Unix time, 0 where that is longer ago than the window.
	// Without failures successes are not counted: their share is not needed, and counting
	// costs more than everything else here.
	lastFailure atomic.Int64
	answered    atomic.Int64 // when something was answered last, in the time of the coarse clock
	// hung says that a call that ran out of time opened the breaker last: the backend takes calls.
	hung atomic.Bool
}

func newBreaker(settings *configv1.Breaker, o *GuardOptions) *breaker {
	b := &breaker{circuit: circuit{settings: settings}, opts: o}
	b.changed = b.tell
	b.forget()
	return b
}

// forget begins anew.
func (b *breaker) forget() {
	b.recent, b.silent = newWindow(b.settings.GetWindow().AsDuration()), blackhole{late: newWindow(b.settings.GetWindow().AsDuration())}
	b.lastFailure.Store(0)
}

// tell follows the circuit.
func (b *breaker) tell(from, to BreakerState) {
	switch to {
	case BreakerClosed:
		b.forget()
	case BreakerOpen:
		b.opened.Add(1)
	case BreakerHalfOpen:
	}
	if b.opts.OnState != nil {
		b.opts.OnState(from, to)
	}
}

// enter lets a call through or answers it. A call that was let through must leave.
func (b *breaker) enter() (permit, *errmap.Error) {
	if b == nil {
		return permit{}, nil
	}
	p := permit{round: b.round.Load()} // before the state: of a change in between, the outcome does not count
	if b.now() == BreakerClosed {
		return p, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p, wait := b.admit(time.Now())
	if wait > 0 {
		b.held.Add(1)
		return permit{}, heldBack("open after too many failed calls", wait)
	}
	return p, nil
}

// guardOutcome is what a call says about the backend.
type guardOutcome uint8

const (
	// unclear says nothing: the caller left, or had no time.
	unclear guardOutcome = iota
	answered
	failedOnTheWay
	ranOut // of time: a failure of its tool, and of the backend only beside others
)

// leave counts the outcome of a call. A probe that brought no answer keeps the
// breaker open, whatever the reason: its place must be given back, and the
// backend has not been seen.
func (b *breaker) leave(p permit, key string, o guardOutcome) {
	if b == nil {
		return
	}
	if o == answered {
		if now := b.opts.Clock.Now(); b.answered.Load() != now { // mostly it is: then there is no contention for the line
			b.answered.Store(now)
		}
	}
	if p.round != b.round.Load() || !p.probe && (o == unclear || o == answered && !b.failedLately()) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.round != b.round.Load() {
		return
	}
	now := time.Now()
	switch {
	case !p.probe && o == ranOut:
		if b.silent.timedOut(now, key, b.settings) && now.UnixNano()-b.answered.Load() > int64(b.settings.GetWindow().AsDuration()) {
			b.trip(now, true)
		}
	case !p.probe:
		if o == failedOnTheWay {
			b.lastFailure.Store(now.UnixNano())
		}
		if b.failsTooOften(now, o == failedOnTheWay) {
			b.trip(now, false)
		}
	case o == answered:
		b.trying--
		b.pass()
	default:
		b.trip(now, o == ranOut || o == unclear && b.hung.Load())
	}
}

// trip opens the breaker. hung says that a call that ran out of time is the reason.
func (b *breaker) trip(now time.Time, hung bool) {
	b.hung.Store(hung)
	b.open(now)
}

// lost keeps calls away from a backend that does not answer questions about its
// health either.
func (b *breaker) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now() == BreakerClosed {
		b.trip(time.Now(), false)
	}
}

// failedLately reports whether there is a failure within the window.
func (b *breaker) failedLately() bool {
	last := b.lastFailure.Load()
	if last == 0 {
		return false
	}
	if time.Now().UnixNano()-last <= int64(b.settings.GetWindow().AsDuration()) {
		return true
	}
	b.lastFailure.CompareAndSwap(last, 0)
	return false
}

// found counts an answer that came while calls were kept away, unless the breaker
// opened anew after the question, of which times is the mark. Where callers' calls have taken all places, it counts beside them.
func (b *breaker) found(times uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now() == BreakerClosed || b.opened.Load() != times {
		return
	}
	if b.now() == BreakerOpen {
		b.change(BreakerHalfOpen)
	}
	b.pass()
}

// isEarly reports whether the breaker lets no call through yet.
func (b *breaker) isEarly() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// maxTools bounds the tools that have an entry, maxShownTools those that Stats
// names. A catalog may hold more, but not that many that time out at a time.
const (
	maxTools      = 4096
	maxShownTools = 256
)

// toolBreakers holds calls of single tools back whose calls keep running out of time. A
// tool has an entry from its first timeout until a window has passed without one:
// where all tools answer in time, there is none, and calls pay for one look at that.
type toolBreakers struct {
	settings *configv1.Breaker
	opts     *GuardOptions
	entries  atomic.Int32
	// opened and held are counts of all tools.
	opened, held atomic.Uint64

	mu     sync.Mutex
	of     map[string]*toolState
	sweeps time.Time // when the next sweep is due
}

// toolState is the breaker of one tool.
type toolState struct {
	circuit

	last time.Time // the last timeout
}

// enter lets a call of a tool through, or answers it.
func (t *toolBreakers) enter(key string) (permit, *errmap.Error) {
	if t == nil || key == "" || t.entries.Load() == 0 {
		return permit{}, nil
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	s := t.of[key]
	if s == nil {
		return permit{}, nil
	}
	p, wait := s.admit(now)
	if wait > 0 {
		t.held.Add(1)
		return permit{}, heldBack("of "+key+" open after too many timeouts", wait)
	}
	return p, nil
}

// leave counts the outcome of a call and reports whether the tool was closed off for
// it. That a call failed on the way, or is unclear, is the backend's matter.
func (t *toolBreakers) leave(p permit, key string, o guardOutcome) (opened bool) {
	if t == nil || key == "" || o != ranOut && p.circuit == nil && t.entries.Load() == 0 {
		return false
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[key]
	switch {
	case s == nil && (p.circuit != nil || o != ranOut):
		return false
	case s == nil:
		if s = t.add(key, now); s == nil {
			return false
		}
	case p.circuit == nil && s.now() != BreakerClosed, p.circuit != nil && (p.circuit != &s.circuit || p.round != s.round.Load()):
		return false // it began in another state
	}
	if o == ranOut {
		s.last = now
	}
	if p.probe {
		s.trying--
	}
	switch {
	case o == ranOut && (p.probe || s.failsTooOften(now, true)):
		t.opened.Add(1)
		s.open(now)
		return true
	case o == answered && p.probe:
		s.pass()
	case o == answered:
		s.recent.count(now, false)
	}
	return false
}

// add makes an entry, which goes when its circuit closes; nil where there are too many.
func (t *toolBreakers) add(key string, now time.Time) *toolState {
	if len(t.of) >= maxTools {
		t.sweeps = time.Time{}
		if t.sweep(now); len(t.of) >= maxTools {
			return nil
		}
	}
	if t.of == nil {
		t.of = map[string]*toolState{}
	}
	s := &toolState{last: now, circuit: circuit{settings: t.settings, recent: newWindow(t.settings.GetWindow().AsDuration())}}
	s.changed = func(from, to BreakerState) {
		if to == BreakerClosed {
			delete(t.of, key)
			t.entries.Store(int32(len(t.of)))
		}
		if t.opts.OnTool != nil && from != to {
			t.opts.OnTool(key, from, to)
		}
	}
	t.of[key] = s
	t.entries.Store(int32(len(t.of)))
	return s
}

// sweep forgets tools whose last timeout is longer ago than the window, once in a
// window. One that is held back keeps its entry for a window after its time is
// over, for its next call to be the one that tries.
func (t *toolBreakers) sweep(now time.Time) {
	if now.Before(t.sweeps) {
		return
	}
	t.sweeps = now.Add(t.settings.GetWindow().AsDuration())
	for _, s := range t.of {
		if s.trying == 0 && now.Sub(s.last) > t.settings.GetWindow().AsDuration() && now.Sub(s.until) > t.settings.GetWindow().AsDuration() {
			s.change(BreakerClosed)
		}
	}
}

// keep forgets the tools that there are no more.
func (t *toolBreakers) keep(exists func(key string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.of {
		if !exists(key) {
			s.change(BreakerClosed)
		}
	}
}

// ToolBreaker is a tool whose circuit breaker is not closed.
type ToolBreaker struct {
	Tool  string
	State BreakerState
}

// notClosed names the first tools that are held back, in the order of their names,
// and counts the others.
func (t *toolBreakers) notClosed() (named []ToolBreaker, more int) {
	if t.entries.Load() == 0 {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(time.Now())
	for key, s := range t.of {
		if s.now() != BreakerClosed {
			named = append(named, ToolBreaker{key, s.now()})
		}
	}
	slices.SortFunc(named, func(a, b ToolBreaker) int { return strings.Compare(a.Tool, b.Tool) })
	if len(named) > maxShownTools {
		named, more = named[:maxShownTools], len(named)-maxShownTools
	}
	return named, more
}

// windowPieces is how many parts of a window are forgotten one after the other.
const windowPieces = 10

// window counts calls over a time.
type window struct {
	piece  time.Duration
	counts [windowPieces]struct {
		at             int64 // the number of the piece of time that the counts are of
		failed, others int
	}
}

func newWindow(length time.Duration) window { return window{piece: max(length/windowPieces, 1)} }

// count counts a call and returns how many there were within the window, and how
// many of them failed.
func (w *window) count(now time.Time, failed bool) (all, failures int) {
	at := now.UnixNano() / int64(w.piece)
	here := &w.counts[at%windowPieces]
	if here.at != at {
		here.at, here.failed, here.others = at, 0, 0
	}
	if failed {
		here.failed++
	} else {
		here.others++
	}
	for _, c := range w.counts {
		if c.at > at-windowPieces && c.at <= at {
			all += c.failed + c.others
			failures += c.failed
		}
	}
	return all, failures
}

// wholeToken is one repetition, in the parts that percents are paid in.
const wholeToken = 100

// retryBudget pays for retries: each call adds a part of a token, each retry costs a whole one. It
// starts full. Make one with newBudget.
type retryBudget struct {
	share, most int64
	tokens      atomic.Int64
}

func newBudget(percent, burst int) *retryBudget {
	b := &retryBudget{share: int64(percent), most: int64(burst) * wholeToken}
	b.tokens.Store(b.most)
	return b
}

// earn counts one call. Most find the budget full, and only read.
func (b *retryBudget) earn() {
	for {
		now := b.tokens.Load()
		if now >= b.most {
			return
		}
		if b.tokens.CompareAndSwap(now, min(now+b.share, b.most)) {
			return
		}
	}
}

// spend pays for one repetition, or reports that there is too little.
func (b *retryBudget) spend() bool {
	for {
		now := b.tokens.Load()
		if now < wholeToken {
			return false
		}
		if b.tokens.CompareAndSwap(now, now-wholeToken) {
			return true
		}
	}
}

// blackhole recognises a backend that takes calls and answers none: calls of two or
// more tools ran out of time within the window, and nothing was answered in it. One
// tool alone says nothing about the others. The breaker's lock guards it.
type blackhole struct {
	late window
	// tools are the two tools of the last timeouts, and when they were.
	tools [2]struct {
		key string
		at  time.Time
	}
}

// timedOut counts a timeout and reports whether there are enough of them.
func (h *blackhole) timedOut(now time.Time, key string, settings *configv1.Breaker) bool {
	_, late := h.late.count(now, true)
	at := 0
	switch {
	case h.tools[0].key == key && !h.tools[0].at.IsZero():
	case h.tools[1].key == key && !h.tools[1].at.IsZero(), h.tools[1].at.Before(h.tools[0].at):
		at = 1
	}
	h.tools[at].key, h.tools[at].at = key, now
	other := h.tools[1-at].at
	return late >= int(settings.GetMinCalls()) && !other.IsZero() && now.Sub(other) <= settings.GetWindow().AsDuration()
}
