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

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/peer"
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
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half_open"
	}
	return "unknown"
}

// BreakerStates returns all states, for metrics.
func BreakerStates() []BreakerState {
	return []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen}
}

// errHeld is the cause of an answer that the breaker gave.
var errHeld = errors.New("resilience: circuit breaker open")

// heldHint is what a caller is asked to wait while others already try whether the
// backend is back.
const heldHint = time.Second

// breaker is a circuit breaker: it refuses calls while most of them would fail. Nil refuses none.
type breaker struct {
	policy circuitbreaker.CircuitBreaker[any]
	told   func(from, to BreakerState)
	state  atomic.Int32
	// round counts changes of the state. An outcome counts only in the round in
	// which its call began: what was sent while the backend was there says nothing
	// about whether it is back.
	round        atomic.Uint64
	opened, held atomic.Uint64
	// window is the time over which calls are counted; lastFailure is when the last
	// one failed, in nanoseconds of Unix time, 0 where that is longer ago. Without
	// failures successes are not counted: their share is not needed, and counting
	// costs more than everything else here.
	window      time.Duration
	lastFailure atomic.Int64
	// counting orders what is counted while there are failures. percent of least
	// calls are the threshold.
	counting sync.Mutex
	percent  uint
	least    uint
	recent   window
	silent   blackhole
	// clock is coarse; answered is when something was answered last, in its time.
	clock    *peer.Clock
	answered atomic.Int64
	// late says that the failure that is being counted was a call that ran out of
	// time, hung that such a one opened the breaker last: the backend takes calls.
	late bool
	hung atomic.Bool
}

// permit is the permission to make one call.
type permit struct {
	round uint64
	// probe is set if the breaker waits for the outcome of this call.
	probe bool
}

func newBreaker(o GuardOptions) *breaker {
	if o.NoBreaker {
		return nil
	}
	b := &breaker{told: o.OnState, window: o.Window, percent: uint(o.FailurePercent), least: uint(o.MinCalls),
		recent: newWindow(o.Window), silent: blackhole{late: newWindow(o.Window)}, clock: o.Clock}
	b.policy = circuitbreaker.NewBuilder[any]().
		WithSuccessThreshold(uint(o.Probes)).
		WithDelay(o.OpenFor).
		OnStateChanged(b.changed).
		Build()
	return b
}

// changed follows the policy. It runs within the call that caused the change.
func (b *breaker) changed(e circuitbreaker.StateChangedEvent) {
	from, to := stateOf(e.OldState), stateOf(e.NewState)
	b.round.Add(1)
	b.state.Store(int32(to))
	if to == BreakerClosed { // which happens where outcomes are counted
		b.recent.forget()
		b.silent.forget()
		b.lastFailure.Store(0)
	}
	if to == BreakerOpen {
		b.hung.Store(b.late)
		b.opened.Add(1)
	}
	if b.told != nil {
		b.told(from, to)
	}
}

func stateOf(s circuitbreaker.State) BreakerState {
	switch s {
	case circuitbreaker.OpenState:
		return BreakerOpen
	case circuitbreaker.HalfOpenState:
		return BreakerHalfOpen
	case circuitbreaker.ClosedState:
	}
	return BreakerClosed
}

// enter lets a call through or answers it. A call that was let through must leave.
func (b *breaker) enter() (permit, *errmap.Error) {
	if b == nil {
		return permit{}, nil
	}
	if BreakerState(b.state.Load()) == BreakerClosed {
		return permit{round: b.round.Load()}, nil
	}
	if !b.policy.TryAcquirePermit() {
		b.held.Add(1)
		wait := b.policy.RemainingDelay()
		if wait <= 0 {
			wait = heldHint
		}
		return permit{}, errmap.Wrap(errmap.Unavailable, errHeld, errmap.RetryAfter(max(wait, time.Millisecond)), errmap.Message(fmt.Sprintf(
			"Tool service unavailable: circuit breaker open after too many failed calls (next probe in %v)",
			max(wait, time.Millisecond).Round(time.Millisecond))))
	}
	return permit{round: b.round.Load(), probe: BreakerState(b.state.Load()) != BreakerClosed}, nil
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
		if now := b.clock.Now(); b.answered.Load() != now { // mostly it is: then there is no contention for the line
			b.answered.Store(now)
		}
	}
	if p.round != b.round.Load() {
		return
	}
	if o == ranOut && !p.probe {
		b.timedOut(p, key)
		return
	}
	failed := o == failedOnTheWay || o == ranOut || o == unclear && p.probe
	switch {
	case failed:
		b.lastFailure.Store(time.Now().UnixNano())
	case o == unclear, !p.probe && !b.failedLately():
		return
	}
	b.counting.Lock()
	defer b.counting.Unlock()
	if p.round != b.round.Load() {
		return
	}
	if o != unclear && failed {
		b.late = o == ranOut
	}
	switch {
	case BreakerState(b.state.Load()) == BreakerClosed:
		b.count(failed)
	case failed:
		b.policy.RecordFailure()
	default:
		b.policy.RecordSuccess()
	}
}

// timedOut counts a call that ran out of time while calls go through.
func (b *breaker) timedOut(p permit, key string) {
	b.counting.Lock()
	defer b.counting.Unlock()
	now := time.Now()
	if p.round != b.round.Load() || BreakerState(b.state.Load()) != BreakerClosed {
		return
	}
	if b.silent.timedOut(now, key, b.window, b.least) && now.UnixNano()-b.answered.Load() > int64(b.window) {
		b.late = true
		b.policy.Open()
	}
}

// lost keeps calls away from a backend that does not answer questions about its
// health either.
func (b *breaker) lost() {
	b.counting.Lock()
	defer b.counting.Unlock()
	if BreakerState(b.state.Load()) == BreakerClosed {
		b.late = false
		b.policy.Open()
	}
}

// count counts an outcome while calls go through, and opens the breaker where too
// many have failed. Only a failure opens it: a success says that the backend is
// there, even where it completes the least number of calls.
func (b *breaker) count(failed bool) {
	all, failures := b.recent.count(time.Now(), failed)
	if failed && all >= b.least && failures*100 >= b.percent*all {
		b.policy.Open()
	}
}

// failedLately reports whether there is a failure within the window.
func (b *breaker) failedLately() bool {
	last := b.lastFailure.Load()
	if last == 0 {
		return false
	}
	if time.Now().UnixNano()-last <= int64(b.window) {
		return true
	}
	b.lastFailure.CompareAndSwap(last, 0)
	return false
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
//
// These states are not the library's, because a place for a probe must be given back
// where the backend's breaker does not let the call through.
type toolBreakers struct {
	opts    GuardOptions
	entries atomic.Int32
	// opened and held are counts of all tools.
	opened, held atomic.Uint64

	mu     sync.Mutex
	of     map[string]*toolState
	sweeps time.Time // when the next sweep is due
}

// toolState is the breaker of one tool.
type toolState struct {
	state BreakerState
	// round counts changes of the state, as in breaker.
	round          uint64
	until          time.Time // when an open one lets calls through to try
	trying, passed int       // probes under way, and answered
	last           time.Time // the last timeout
	recent         window
}

// toolPermit is the permission to call one tool.
type toolPermit struct {
	entry *toolState
	round uint64
	probe bool
}

// enter lets a call of a tool through, or answers it.
func (t *toolBreakers) enter(key string) (toolPermit, *errmap.Error) {
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
	case s.state == BreakerClosed:
		return toolPermit{entry: s, round: s.round}, nil
	case s.state == BreakerOpen && now.Before(s.until):
		return toolPermit{}, t.hold(key, s.until.Sub(now))
	case s.state == BreakerOpen:
		t.change(key, s, BreakerHalfOpen)
	}
	if s.trying+s.passed >= t.opts.Probes {
		return toolPermit{}, t.hold(key, heldHint)
	}
	s.trying++
	return toolPermit{entry: s, round: s.round, probe: true}, nil
}

// hold answers a call.
func (t *toolBreakers) hold(key string, wait time.Duration) *errmap.Error {
	t.held.Add(1)
	wait = max(wait, time.Millisecond)
	return errmap.Wrap(errmap.Unavailable, errHeld, errmap.RetryAfter(wait), errmap.Message(fmt.Sprintf(
		"Tool service unavailable: circuit breaker of %s open after too many timeouts (next probe in %v)",
		key, wait.Round(time.Millisecond))))
}

// leave counts the outcome of a call and reports whether the tool was closed off for
// it.
func (t *toolBreakers) leave(p toolPermit, key string, o guardOutcome) (opened bool) {
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
	case p.entry == nil && s.state != BreakerClosed:
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
func (t *toolBreakers) tried(key string, s *toolState, o guardOutcome, now time.Time) (opened bool) {
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

func (t *toolBreakers) open(key string, s *toolState, now time.Time) {
	s.until = now.Add(t.opts.OpenFor)
	t.opened.Add(1)
	t.change(key, s, BreakerOpen)
}

func (t *toolBreakers) change(key string, s *toolState, to BreakerState) {
	from := s.state
	s.state, s.trying, s.passed = to, 0, 0
	s.round++
	if t.opts.OnTool != nil && from != to {
		t.opts.OnTool(key, from, to)
	}
}

// add makes an entry; nil where there are too many.
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
	s := &toolState{last: now, recent: newWindow(t.opts.Window)}
	t.of[key] = s
	t.entries.Store(int32(len(t.of)))
	return s
}

// forget lets calls of a tool through again.
func (t *toolBreakers) forget(key string, s *toolState) {
	t.change(key, s, BreakerClosed)
	delete(t.of, key)
	t.entries.Store(int32(len(t.of)))
}

// sweep forgets tools whose last timeout is longer ago than the window, once in a
// window. One that is held back keeps its entry for a window after its time is
// over, for its next call to be the one that tries.
func (t *toolBreakers) sweep(now time.Time) {
	if now.Before(t.sweeps) {
		return
	}
	t.sweeps = now.Add(t.opts.Window)
	for key, s := range t.of {
		end := s.last
		if s.state != BreakerClosed && s.until.After(end) {
			end = s.until
		}
		if s.trying == 0 && now.Sub(end) > t.opts.Window {
			t.forget(key, s)
		}
	}
}

// keep forgets the tools that there are no more.
func (t *toolBreakers) keep(exists func(key string) bool) {
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
	State BreakerState
}

// notClosed names the first tools that are held back, in the order of their names,
// and counts the others.
func (t *toolBreakers) notClosed() (named []ToolBreaker, more int) {
	if t == nil || t.entries.Load() == 0 {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(time.Now())
	for key, s := range t.of {
		if s.state != BreakerClosed {
			named = append(named, ToolBreaker{key, s.state})
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

// window counts calls over a time. The library has one too, which forgets what is
// too old only in the moment in which it counts the next call, and then judges: where
// old successes go, a success opens the breaker.
type window struct {
	piece  time.Duration
	counts [windowPieces]struct {
		at             int64 // the number of the piece of time that the counts are of
		failed, others uint
	}
}

func newWindow(length time.Duration) window { return window{piece: max(length/windowPieces, 1)} }

// count counts a call and returns how many there were within the window, and how
// many of them failed.
func (w *window) count(now time.Time, failed bool) (all, failures uint) {
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

// forget begins anew.
func (w *window) forget() { *w = window{piece: w.piece} }

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
func (h *blackhole) timedOut(now time.Time, key string, length time.Duration, least uint) bool {
	_, late := h.late.count(now, true)
	at := 0
	switch {
	case h.tools[0].key == key && !h.tools[0].at.IsZero():
	case h.tools[1].key == key && !h.tools[1].at.IsZero(), h.tools[1].at.Before(h.tools[0].at):
		at = 1
	}
	h.tools[at].key, h.tools[at].at = key, now
	other := h.tools[1-at].at
	return late >= least && !other.IsZero() && now.Sub(other) <= length
}

// forget begins anew.
func (h *blackhole) forget() { *h = blackhole{late: newWindow(h.late.piece * windowPieces)} }
