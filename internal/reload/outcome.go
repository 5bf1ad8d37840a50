// SPDX-License-Identifier: Apache-2.0

package reload

import "time"

// Outcome is the result of a reload.
type Outcome uint8

// The outcomes. Unchanged: the content is the same as before. Applied: the content
// is in use. Partial: part of it is in use, and the rest was refused, with its
// names. Refused: none of it is in use, and the previous content stays in use.
// Deferred: as Refused, but a dependency was not ready, so the reload may succeed
// without another change of the files; it is retried at the next poll, and later after
// pauses if the group is slow ([Group.Slow]).
const (
	Unchanged Outcome = iota
	Applied
	Partial
	Refused
	Deferred
	outcomes int = iota
)

// Outcomes returns all outcomes, in order.
func Outcomes() []Outcome { return []Outcome{Unchanged, Applied, Partial, Refused, Deferred} }

// String returns the outcome's name, for logs and metrics.
func (o Outcome) String() string {
	switch o {
	case Unchanged:
		return "unchanged"
	case Applied:
		return "applied"
	case Partial:
		return "partial"
	case Refused:
		return "refused"
	}
	return "deferred"
}

// succeeded reports whether the files are good.
func (o Outcome) succeeded() bool { return o <= Partial }

// Status is the state of a group of files.
type Status struct {
	// Group is the name of the group.
	Group string
	// Files is the number of files.
	Files int
	// Counts are the number of reloads with each outcome.
	Counts [outcomes]uint64
	// Last is the outcome of the last reload. Tried is the time of the last reload;
	// zero if the files have not been reloaded yet.
	Last  Outcome
	Tried time.Time
	// Good is the time when valid content was last read: at startup, or by a reload.
	Good time.Time
}

// Failing reports whether the last reload failed, so that older content is in use.
func (s Status) Failing() bool { return !s.Tried.IsZero() && !s.Last.succeeded() }
