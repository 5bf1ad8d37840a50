// SPDX-License-Identifier: Apache-2.0

package reload

import "time"

// Outcome is what came of reading files again.
type Outcome uint8

// The outcomes. Unchanged: they say what they said before. Applied: what they
// say is in use. Partial: a part of it is in use, and the rest was refused by
// name. Refused: nothing of it is in use, and what was in use stays. Deferred:
// the same, but it may be well without another change of the files, because
// somebody else was not ready; it is tried again at the next look.
const (
	Unchanged Outcome = iota
	Applied
	Partial
	Refused
	Deferred
	outcomes int = iota
)

// Outcomes are all outcomes, in their order.
func Outcomes() []Outcome { return []Outcome{Unchanged, Applied, Partial, Refused, Deferred} }

// String is the outcome's name, for logs and metrics.
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

// Status is how a group of files is doing.
type Status struct {
	// Group is its name.
	Group string
	// Files are how many there are.
	Files int
	// Counts are how often reading them again ended in each outcome.
	Counts [outcomes]uint64
	// Last is the outcome of the last time, Tried when that was, zero where the
	// files have not been read again yet.
	Last  Outcome
	Tried time.Time
	// Good is when their last good content was read: at the start, or again later.
	Good time.Time
}

// Failing reports whether the files are such that what is in use is older.
func (s Status) Failing() bool { return !s.Tried.IsZero() && !s.Last.succeeded() }
