// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the state machine of the process: starting, ready, not ready, draining, or stopped.
//
//	starting ──▶ ready ◀──▶ not ready
//	    └───────────┴────────────┴──▶ draining ──▶ stopped
//
// Probes, metrics, the log and code that waits for a drain all use it. It starts and ends nothing itself. Other code
// reports dependencies ([Machine.Set]), starts a drain ([Machine.Drain]), and reports its end ([Machine.Stop]). A drain
// cannot be undone.
//
// A Machine is safe for concurrent use. It reports changes in the order in which they happen.
package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// State is the state of the process.
type State uint8

// The states. The zero value is the first.
const (
	// Starting: not all needs have been met yet.
	Starting State = iota
	// Ready: calls can be served.
	Ready
	// NotReady: a need is no longer met.
	NotReady
	// Draining: new work is rejected, and existing work finishes.
	Draining
	// Stopped: all work has finished.
	Stopped
)

// String returns the state as probes, metrics and logs name it.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Ready:
		return "ready"
	case NotReady:
		return "not_ready"
	case Draining:
		return "draining"
	case Stopped:
		return "stopped"
	}
	return "unknown"
}

// States returns all states, in order.
func States() []State { return []State{Starting, Ready, NotReady, Draining, Stopped} }

// errNotDraining is returned by Stop outside of a drain.
var errNotDraining = errors.New("lifecycle: the process is not draining")

// Change is a transition to a new state.
type Change struct {
	From, To State
	// Why is the reason, as text for the log.
	Why string
}

// Status is the current status of the machine.
type Status struct {
	State State
	Since time.Time
	// Why is the reason for the current state.
	Why string
	// Needs are the conditions, in the order in which they were first set.
	Needs []Need
}

// Need is a condition that calls depend on.
type Need struct {
	Name string
	OK   bool
	Why  string
}

// Machine is the lifecycle of one process. Make one with [New].
type Machine struct {
	told func(Change)

	mu      sync.Mutex
	status  Status
	drain   chan struct{} // closed when Draining begins
	stopped chan struct{} // closed when Stopped begins

	// telling keeps changes in their order on their way to told, which may take
	// its own locks.
	telling sync.Mutex
}

// New returns a machine that is starting. It becomes ready when every need is met. told, which may be nil, is called
// with each change, one at a time; it must not change the machine.
func New(told func(Change), needs ...string) *Machine {
	m := &Machine{told: told, drain: make(chan struct{}), stopped: make(chan struct{})}
	m.status.Since = time.Now()
	for _, name := range needs {
		m.status.Needs = append(m.status.Needs, Need{Name: name, Why: "not available yet"})
	}
	return m
}

// Set sets whether a need is met, and the reason. An unknown need is added. After the drain has begun, it changes
// nothing.
func (m *Machine) Set(need string, ok bool, why string) {
	m.change(func() (State, string, bool) {
		if m.status.State >= Draining {
			return 0, "", false
		}
		at := slices.IndexFunc(m.status.Needs, func(n Need) bool { return n.Name == need })
		if at < 0 {
			at = len(m.status.Needs)
			m.status.Needs = append(m.status.Needs, Need{Name: need})
		}
		m.status.Needs[at].OK, m.status.Needs[at].Why = ok, why
		missing := slices.IndexFunc(m.status.Needs, func(n Need) bool { return !n.OK })
		switch {
		case missing < 0 && m.status.State != Ready:
			return Ready, why, true
		case missing >= 0 && m.status.State == Ready:
			return NotReady, m.status.Needs[missing].Name + ": " + m.status.Needs[missing].Why, true
		}
		return 0, "", false
	})
}

// Drain starts the drain. It reports whether it was the first call.
func (m *Machine) Drain(why string) bool {
	return m.change(func() (State, string, bool) { return Draining, why, m.status.State < Draining })
}

// Stop reports that all work has finished. Outside of a drain it returns errNotDraining; further calls return nil.
func (m *Machine) Stop(why string) error {
	var err error
	m.change(func() (State, string, bool) {
		if m.status.State < Draining {
			err = errNotDraining
		}
		return Stopped, why, m.status.State == Draining
	})
	return err
}

// change makes one step, if decide says so, and tells of it.
func (m *Machine) change(decide func() (to State, why string, ok bool)) bool {
	m.telling.Lock()
	defer m.telling.Unlock()
	m.mu.Lock()
	to, why, ok := decide()
	if !ok {
		m.mu.Unlock()
		return false
	}
	from := m.status.State
	m.status.State, m.status.Since, m.status.Why = to, time.Now(), why
	switch to {
	case Draining:
		close(m.drain)
	case Stopped:
		close(m.stopped)
	case Starting, Ready, NotReady:
	}
	m.mu.Unlock()
	if m.told != nil {
		m.told(Change{From: from, To: to, Why: why})
	}
	return true
}

// Status returns the current status.
func (m *Machine) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.status
	out.Needs = slices.Clone(m.status.Needs)
	return out
}

// State returns only the state.
func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status.State
}

// Draining returns a channel that is closed when the drain has begun.
func (m *Machine) Draining() <-chan struct{} { return m.drain }

// Stopped returns a channel that is closed when all work has finished.
func (m *Machine) Stopped() <-chan struct{} { return m.stopped }

// Wait returns nil when the process has stopped, or the cause of the end of the context.
func (m *Machine) Wait(ctx context.Context) error {
	select {
	case <-m.stopped:
		return nil
	default:
	}
	select {
	case <-m.stopped:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
