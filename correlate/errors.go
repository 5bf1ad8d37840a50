// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Why Register refuses a call. Match with errors.Is.
var (
	ErrDuplicateID = errors.New("correlate: the id is in flight")
	ErrDraining    = errors.New("correlate: draining, no new calls")
	ErrFull        = errors.New("correlate: too many calls in flight")
)

// What context.Cause of a call's context says, besides
// context.DeadlineExceeded, context.Canceled after Finish, and the cause of the
// context given to Register. Match with errors.Is.
var (
	// ErrCancelled: the caller cancelled the call. The cause is a *CancelError.
	ErrCancelled = errors.New("correlate: cancelled by the caller")
	// ErrOriginClosed: the origin is gone, there is no one to answer.
	ErrOriginClosed = errors.New("correlate: the origin is closed")
	// ErrDrainCut: the grace period of a Drain ended before the call did.
	ErrDrainCut = errors.New("correlate: cut off at the end of the drain")
)

// maxReasonBytes bounds what a caller can put into logs by cancelling.
const maxReasonBytes = 256

// CancelError is ErrCancelled with the caller's reason.
type CancelError struct {
	Reason string // may be empty; at most 256 bytes of UTF-8
}

func newCancelError(reason string) *CancelError {
	return &CancelError{Reason: clipped(reason)}
}

// clipped is the beginning of a text that somebody else chose.
func clipped(text string) string {
	if len(text) > maxReasonBytes {
		cut := maxReasonBytes
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = strings.Clone(text[:cut])
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// Error returns the text of ErrCancelled and the reason, quoted.
func (e *CancelError) Error() string {
	if e.Reason == "" {
		return ErrCancelled.Error()
	}
	return fmt.Sprintf("%v: %q", ErrCancelled, e.Reason)
}

// Unwrap returns ErrCancelled.
func (e *CancelError) Unwrap() error { return ErrCancelled }

// maxUnfinished is how many calls a DrainError names: what a person reads.
const maxUnfinished = 32

// DrainError means that a Drain timed out.
type DrainError struct {
	Cut        int          // calls that were still in flight and lost their context
	Unfinished []Unfinished // the first of them, at most maxUnfinished
	Cause      error        // why the context given to Drain ended
}

// Unfinished is a call that the end of a Drain cut off. Name and ID come from its
// sender, cut to 256 bytes; either may be empty.
type Unfinished struct {
	Name, ID string
}

// String returns the call in a form for logs.
func (u Unfinished) String() string { return fmt.Sprintf("%q id %q", u.Name, u.ID) }

// Error returns the number of calls and the cause.
func (e *DrainError) Error() string {
	return fmt.Sprintf("correlate: drain: %d calls cut: %v", e.Cut, e.Cause)
}

// Unwrap returns the cause.
func (e *DrainError) Unwrap() error { return e.Cause }
