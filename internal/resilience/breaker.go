// SPDX-License-Identifier: Apache-2.0

package resilience

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/stall"
)

// State is the state of a circuit breaker.
type State int32

// The states. The zero value is that of a breaker that has seen nothing, and of
// one that there is not.
const (
	// Closed: calls pass.
	Closed State = iota
	// Open: calls fail fast until the open time has passed.
	Open
	// HalfOpen: only the probe calls pass.
	HalfOpen
)

// String returns the state as logs and metrics name it.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return "unknown"
}

// States returns all states, for metrics.
func States() []State { return []State{Closed, Open, HalfOpen} }

// errHeld is the cause of an answer that the breaker gave.
var errHeld = errors.New("resilience: circuit breaker open")

// heldHint is what a caller is told to wait while others already try whether the
// backend is back.
const heldHint = time.Second

// breaker holds calls back while most of them would fail. Nil never does.
type breaker struct {
	policy circuitbreaker.CircuitBreaker[any]
	told   func(from, to State)
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
	clock    *stall.Clock
	answered atomic.Int64
	// late says that the failure that is being counted was a call that ran out of
	// time, hung that such a one opened the breaker last: the backend takes calls.
	late bool
	hung atomic.Bool
}

// permit is the leave to make one call.
type permit struct {
	round uint64
	// probe is set where the breaker waits for the outcome.
	probe bool
}

func newBreaker(o Options) *breaker {
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
	if to == Closed { // which happens where outcomes are counted
		b.recent.forget()
		b.silent.forget()
		b.lastFailure.Store(0)
	}
	if to == Open {
		b.hung.Store(b.late)
		b.opened.Add(1)
	}
	if b.told != nil {
		b.told(from, to)
	}
}

func stateOf(s circuitbreaker.State) State {
	switch s {
	case circuitbreaker.OpenState:
		return Open
	case circuitbreaker.HalfOpenState:
		return HalfOpen
	case circuitbreaker.ClosedState:
	}
	return Closed
}

// enter lets a call through or answers it. A call that was let through must leave.
func (b *breaker) enter() (permit, *errmap.Error) {
	if b == nil {
		return permit{}, nil
	}
	if State(b.state.Load()) == Closed {
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
	return permit{round: b.round.Load(), probe: State(b.state.Load()) != Closed}, nil
}

// outcome is what a call says about the backend.
type outcome uint8

const (
	// unclear says nothing: the caller left, or had no time.
	unclear outcome = iota
	answered
	failedOnTheWay
	ranOut // of time: a failure of its tool, and of the backend only beside others
)

// leave counts the outcome of a call. A probe that brought no answer keeps the
// breaker open, whatever the reason: its place must be given back, and the
// backend has not been seen.
func (b *breaker) leave(p permit, key string, o outcome) {
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
	case State(b.state.Load()) == Closed:
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
	if p.round != b.round.Load() || State(b.state.Load()) != Closed {
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
	if State(b.state.Load()) == Closed {
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
