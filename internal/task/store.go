// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Errors of a [Store].
var (
	// ErrNotFound means that the task does not exist, does not exist any more, or belongs
	// to another caller. The error does not reveal which.
	ErrNotFound = errors.New("task: not found")
	// ErrFull means that there is no room for another task, or for the growth of one.
	ErrFull = errors.New("task: full")
	// ErrExists means that the id of a new record is taken.
	ErrExists = errors.New("task: the id is taken")
	// ErrConflict means that the record was modified concurrently.
	ErrConflict = errors.New("task: modified concurrently")
	// ErrUnavailable means that the store cannot be reached. What was asked of it may have
	// happened.
	ErrUnavailable = errors.New("task: the store is unavailable")
)

// Record is a store's record of a task. The values that it points to are shared and
// never changed: a change makes new values.
type Record struct {
	// ID is the id of the task, Principal its owner, and Tool the tool that it runs.
	ID, Principal, Tool string
	// Task is the task as its caller sees it.
	Task *outriggerv1.Task
	// Origin is that of the Spec; nil for none.
	Origin []byte
	// Keep is how long the task is kept after its end.
	Keep time.Duration
	// Expires is when the record may be deleted.
	Expires time.Time
	// Owner is the process that runs the work, empty for none, or where processes share
	// nothing. Again is that of the Spec, and Takeovers how often another process took the
	// work over: Handovers of these times because the one before handed it over at the end
	// of its drain. Timeout and Idempotent are those of the Spec.
	Owner                string
	Again                []byte
	Takeovers, Handovers int
	Timeout              time.Duration
	Idempotent           bool
	// View is what [Spec.View] said when the work ended, or [OwnWords].
	View string
	// Version is set by the store. It changes with each update and has no other meaning.
	Version uint64
}

// OwnWords is the [Record.View] of a task whose end has no more than words of the sidecar's.
const OwnWords = "-"

// IsFinal reports whether the task has ended, so that it does not change any more.
func (r *Record) IsFinal() bool { return isFinal(r.Task.GetStatus()) }

// Store keeps the records of tasks. Processes may share it; then it implements
// [Replicas], too.
type Store interface {
	// Create stores a new record. When it returns, Get finds the record everywhere. The
	// errors are [ErrFull], [ErrShare], [ErrExists], [ErrUnavailable] and those of the
	// store.
	Create(ctx context.Context, r Record) error
	// Get returns the current record. The errors are [ErrNotFound], also from its expiry
	// on, and those of the store.
	Get(ctx context.Context, id string) (Record, error)
	// Update replaces the record with the id of r, if its version is still that of r. The
	// errors are [ErrConflict], [ErrNotFound], [ErrFull], [ErrUnavailable] and those of the
	// store. After another error than ErrUnavailable nothing has changed.
	Update(ctx context.Context, r Record) error
	// Delete deletes a record. The record need not exist.
	Delete(ctx context.Context, id string) error
	// Watch calls changed with every record that any process updates from now on, for the
	// life of the store. Where processes share the store, updates of a record that follow
	// each other closely may be merged into one call with the last. Calls for one record are sequential, in the order of its
	// updates, and without a lock: changed may use the store. It must return quickly.
	Watch(changed func(Record))
}
