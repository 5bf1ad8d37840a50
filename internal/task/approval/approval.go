// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"errors"
	"time"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
)

// The states of a record.
const (
	Waiting   = "waiting"   // it waits for decisions
	Approved  = "approved"  // it may run once
	Running   = "running"   // it was taken to run
	Done      = "done"      // it has run
	Denied    = "denied"    // an approver denied it
	Expired   = "expired"   // it was not decided, or not used, in time
	Cancelled = "cancelled" // it must not run any more
)

// Approver is an operator that may decide. The local operator, where there is no file of operators, has the name "local".
type Approver struct {
	Name string
	// Groups are those that rules name.
	Groups []string
	// CallsAs are the callers that the operator may act as: it does not decide about their calls.
	CallsAs []string
	// Classes are those of fields that the operator sees in arguments and previews. [Service] does not mask.
	Classes []string
}

// Rule is what a policy rule with the effect "approve" asks for.
type Rule struct {
	Name string
	// Callers and Groups are the operators that may approve.
	Callers, Groups []string
	// Count is how many must agree.
	Count int
	// Within is how long a call waits.
	Within time.Duration
	// Bound are the paths of the arguments that an approval is for; none: all.
	Bound []string
	// Digest identifies what the rule says.
	Digest [32]byte
}

// The kinds of an [Event].
const (
	EventAsked   = "asked"   // a call began to wait
	EventDecided = "decided" // an approver decided; the record's state says whether more must
	EventEnded   = "ended"   // it ran, expired or was cancelled
)

// Event is a change of a record.
type Event struct {
	Kind string
	// Record must not be changed.
	Record *statev1.ApprovalRecord
}

// Errors of a [Store].
var (
	ErrNotFound    = errors.New("approval: not found")
	ErrConflict    = errors.New("approval: modified concurrently")
	ErrFull        = errors.New("approval: full")
	ErrUnavailable = errors.New("approval: the store is unavailable")
)

// Entry is a record in a store.
type Entry struct {
	// Record must not be changed.
	Record *statev1.ApprovalRecord
	// Version changes with each write; 0: there is no record.
	Version uint64
}

// Store keeps records by keys. Processes may share it. It is safe for concurrent use.
type Store interface {
	// Get returns the record as it is now. The errors are [ErrNotFound], [ErrUnavailable] and those of the store.
	Get(ctx context.Context, key string) (Entry, error)
	// Put stores a record if the version is still the given one, 0 for none, and forgets it after keep. The errors are
	// [ErrConflict], [ErrFull], [ErrUnavailable], after which it may have happened, and those of the store.
	Put(ctx context.Context, key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) error
	// Known returns all records, as far as this process has heard; false while it has not heard of all.
	Known() (all []*statev1.ApprovalRecord, loaded bool)
	// Watch calls changed with each record that any process stores from now on, without a lock. It must return quickly. A record whose
	// key is its id is a copy of one that has ended, and not told of.
	Watch(changed func(*statev1.ApprovalRecord))
}
