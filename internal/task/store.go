// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Sentinels of this package.
var (
	// ErrNotFound: there is no such task, or not any more, or it is another
	// caller's. Which of these is not said.
	ErrNotFound = errors.New("task: not found")
	// ErrFull: there is no room for another task, or for what one grew by.
	ErrFull = errors.New("task: full")
	// ErrExists: the id of a new record is taken.
	ErrExists = errors.New("task: the id is taken")
	// ErrConflict: the record was changed by somebody else in the meantime.
	ErrConflict = errors.New("task: modified concurrently")
)

// Record is what a store keeps of a task. What it points to is shared and never
// changed: a change makes new values.
type Record struct {
	// ID is the task's, Principal whose task it is, Tool what it runs.
	ID, Principal, Tool string
	// Task is what its caller sees.
	Task *outriggerv1.Task
	// Answers are those that came in and that the work may not have read yet, by
	// their keys.
	Answers map[string]*outriggerv1.InputResponse
	// Keep is how long the task is remembered after its end.
	Keep time.Duration
	// Expires is when the record may be forgotten.
	Expires time.Time
	// Version is the store's: it changes with each update and means nothing else.
	Version uint64
}

// Store keeps the records of tasks. It may be shared by processes.
type Store interface {
	// Create keeps a new record; when it returns, Get finds it everywhere. Its
	// errors are [ErrFull], [ErrExists] and those of the store.
	Create(ctx context.Context, r Record) error
	// Get returns the record as it is now. Its errors are [ErrNotFound], also from
	// the moment of its expiry on, and those of the store.
	Get(ctx context.Context, id string) (Record, error)
	// Update replaces the record that has r's id, if its version is still r's. Its
	// errors are [ErrConflict], [ErrNotFound], [ErrFull] and those of the store,
	// and then nothing has changed.
	Update(ctx context.Context, r Record) error
	// Delete forgets a record. There need not be one.
	Delete(ctx context.Context, id string) error
	// Watch has changed called with every record that is updated from now on, by
	// whomever, for the life of the store. Updates of one record are told one after
	// the other, in their order, and without a lock: changed may use the store. It
	// returns soon.
	Watch(changed func(Record))
}
