// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// The properties, by their names in reports.
const (
	propertyApproved = "an approved call runs once"
	propertyDenied   = "what is not approved never runs"
	propertyPeople   = "two approvers are two people, and none is the requester"
	propertyAnswer   = "an answer reaches its caller"
	propertyConsent  = "a consent runs once"
	propertyOwner    = "a task has one owner"
	propertyKept     = "what was acknowledged is not lost"
	propertyDrain    = "a drained call is answered"
	propertyIDs      = "ids never cross"
	propertyMemory   = "memory stays bounded"
	propertyOnce     = "a call that must not run again runs once"
	propertyRefused  = "what is refused does not run"
	propertyErrors   = "errors have a reason"
	propertyWell     = "all is well in the end"
	propertyWorks    = "the simulation works"
)

// declared is what many simulations must have reached: each property was exercised, each kind of fault, each two of them at a time, and each state that is
// interesting. A property that nothing exercised would show nothing.
func declared() []string {
	var out []string
	for _, property := range []string{
		propertyAnswer, propertyConsent, propertyOwner, propertyKept, propertyDrain, propertyIDs, propertyMemory, propertyOnce, propertyRefused,
		propertyErrors, propertyWell, propertyApproved, propertyDenied, propertyPeople,
	} {
		out = append(out, "property: "+property)
	}
	for i, a := range faultKinds() {
		out = append(out, "fault: "+a.name)
		for _, b := range faultKinds()[:i] {
			out = append(out, "pair: "+min(a.name, b.name)+" + "+max(a.name, b.name))
		}
	}
	return append(out, states()...)
}

// states are those that are interesting.
func states() []string {
	return []string{
		"a call ends before it is a task", "a call stays one", "a cancellation is acknowledged", "a consent was used before",
		"a drain with work", "a replica gives up a write", "a task ends as unknown", "a task is handed over", "a task is taken over",
		"work is lost to another replica", "work runs again", "tasks update: conflict", "owners update: conflict", "consents create: conflict",
		"tasks create: unavailable", "consents create: unavailable", "get finds the state unavailable", "consents create: full",
		"a client asks while two servers lead", "a consent runs although its acknowledgement was lost", "a call finds the store full",
		"work runs at two replicas until the first hears of it", "a call is refused by a drain", "a drained call has its result",
		"a drain cuts a call", "a plain call is refused by a drain", "a plain call is cancelled", "admission rejects a call", "a call waits for a slot",
		"an event is heard", "a subscriber finds the bus unavailable", "a registration is acknowledged", "a registration is refused",
		"approval: approved", "approval: running", "approval: done", "approval: denied", "approval: expired", "approvals update: conflict",
		"an approved call ends with its caller", "a call that was approved runs elsewhere", "an approved call ends as unknown",
		"an approval finds the state unavailable", "a decision finds the state unavailable", "an operator may not decide",
		"a call waits for approval as a task", "a task that waits for approval is taken over", "an approved call runs again",
	}
}

// began reports whether a replica drains.
func (w *world) began(r *replica) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.draining
}

// refused sorts why a call did not become a task.
func (w *world) refused(r *replica, method, name string, atOnce bool, err error) {
	w.exercise(propertyRefused)
	if atOnce || errors.Is(err, task.ErrClosed) || errors.Is(err, task.ErrFull) || errors.Is(err, task.ErrShare) {
		w.ledger.mu.Lock()
		n := w.ledger.started[method+" "+name]
		w.ledger.mu.Unlock()
		if n > 0 && !errors.Is(err, context.DeadlineExceeded) {
			w.violate(propertyRefused, "%s %s: %v", method, name, err)
		}
	}
	switch {
	case errors.Is(err, task.ErrClosed):
		w.reach("a call is refused by a drain")
	case errors.Is(err, task.ErrFull):
		w.reach("a call finds the store full")
	default:
		w.unanswered(r, "begin", err)
	}
}

// unanswered sorts errors that say nothing of the outcome.
func (w *world) unanswered(r *replica, what string, err error) {
	w.say("%s has no answer for %s: %v", r.name, what, err)
	w.exercise(propertyErrors)
	switch {
	case errors.Is(err, task.ErrUnavailable), errors.Is(err, state.ErrUnavailable):
		w.reach(what + " finds the state unavailable")
	case errors.Is(err, context.DeadlineExceeded):
		w.reach(what + " takes too long")
	case errors.Is(err, correlate.ErrDrainCut):
	case errors.Is(err, task.ErrFull), errors.Is(err, state.ErrFull):
		w.reach("a store is full")
	default:
		w.violate(propertyErrors, "%s at %s: %v", what, r.name, err)
	}
}

// count adds the counts of a replica to what was reached.
func (w *world) count(r *replica) {
	s := r.tasks.Stats()
	for name, n := range map[string]uint64{
		"a task is taken over": s.TakenOver, "a task is handed over": s.HandedOver, "a task ends as unknown": s.Unknown, "work is lost to another replica": s.Lost,
		"a call stays one": s.Stayed,
	} {
		for range n {
			w.reach(name)
		}
	}
	for _, one := range r.client.Stats() {
		for op, ended := range one.Ended {
			for outcome, n := range ended {
				if outcome != state.Stored {
					w.mu.Lock()
					w.reached[fmt.Sprintf("%s %s: %s", one.Store, op, outcome)] += int(min(n, 1))
					w.mu.Unlock()
				}
			}
		}
	}
}

// auditWithin is how long a replica may take to answer when all is well: leaders may be elected.
const auditWithin = 30 * time.Second

// audit looks at each task at each replica once all is well.
func (w *world) audit(a *actor) {
	for _, one := range w.ledger.tasks {
		for _, r := range w.present() {
			var got *models.TaskOutput
			for limit := time.Now().Add(auditWithin); got == nil && time.Now().Before(limit); {
				if got = a.look(r, one.id); got == nil && !a.step(100*time.Millisecond, 100*time.Millisecond) {
					return
				}
			}
			w.exercise(propertyWell)
			switch {
			case got == nil:
				w.violate(propertyWell, "%s does not answer for %s", r.name, one.id)
			case got.Status == "working":
				w.violate(propertyWell, "%s %s still works at %s", one.method, one.name, r.name)
			case got.Status == models.Completed && w.ledger.started[one.method+" "+one.name] == 0:
				w.violate(propertyAnswer, "%s %s has a result and never ran", one.method, one.name)
			}
		}
	}
}

// check asks the models.
func (w *world) check() {
	w.history["events"] = w.events.operations()
	for name, model := range map[string]porcupine.Model{
		"tasks": models.TaskModel(), "consents": models.ConsentModel(), "events": models.EventModel(), "registrations": models.RegistrationModel(),
	} {
		ops := w.history[name]
		if porcupine.CheckOperations(model, ops) {
			continue
		}
		property := propertyKept
		if name == "consents" {
			property = propertyConsent
		}
		for _, part := range model.Partition(ops) {
			if porcupine.CheckOperations(model, part) {
				continue
			}
			var lines []string
			for _, op := range part {
				lines = append(lines, fmt.Sprintf("  client %d, %d to %d: %s", op.ClientId, op.Call, op.Return, model.DescribeOperation(op.Input, op.Output)))
			}
			w.violate(property, "no order of these is allowed:\n%s", strings.Join(lines, "\n"))
		}
	}
}

// present are the replicas that take calls.
func (w *world) present() []*replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*replica
	for _, r := range w.replicas {
		if r.isPresent() {
			out = append(out, r)
		}
	}
	return out
}

// isWell reports why not all is well, which it must be some time after the last fault.
func (w *world) notWell() string {
	present := w.present()
	if len(present) < replicaSlots {
		return "a replica does not start"
	}
	for _, r := range present {
		switch {
		case !r.client.Health().OK:
			return r.name + ": " + r.client.Health().Why
		case !r.store.Steady():
			return r.name + " has no steady lease"
		case r.tasks.Stats().Running > 0:
			return r.name + " stores the ends of tasks"
		}
	}
	if n := w.ledger.going(); n > 0 {
		return fmt.Sprintf("%d calls go on", n)
	}
	for _, a := range w.actors {
		if !a.isDone() {
			return a.name + " has not ended"
		}
	}
	return ""
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}
