// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of operations.
var (
	// ErrNotFound means that there is no such key, by the leader's word.
	ErrNotFound = errors.New("state: not found")
	// ErrExists means that the key is taken.
	ErrExists = errors.New("state: the key exists")
	// ErrConflict means that the value has another revision.
	ErrConflict = errors.New("state: modified concurrently")
	// ErrFull means that the bucket, or the account, has no room.
	ErrFull = errors.New("state: full")
	// ErrTooLarge means that a value is larger than one message may be.
	ErrTooLarge = errors.New("state: the value is too large")
	// ErrUnavailable means that NATS did not answer, or not as it should. The operation may
	// have happened.
	ErrUnavailable = errors.New("state: unavailable")
	// ErrNoAnswer means that a replica that was asked did not answer in time.
	ErrNoAnswer = errors.New("state: the replica did not answer")
	// ErrUnreadable means that a stored value cannot be opened: it was sealed with another
	// key, changed, or written by a release that this one does not understand.
	ErrUnreadable = errors.New("state: a stored value cannot be read")
)

// Codes of JetStream's errors that nats.go does not name.
const (
	codeAccountExceeded  jetstream.ErrorCode = 10002
	codeNoResources      jetstream.ErrorCode = 10023
	codeMemoryExceeded   jetstream.ErrorCode = 10028
	codeStorageExceeded  jetstream.ErrorCode = 10047
	codeStoreFailed      jetstream.ErrorCode = 10077
	storeFailedByLimit                       = "maximum"
	permissionsViolation                     = "permissions violation"
)

// classify turns an error of nats.go into one of this package. ctx is the caller's own.
func classify(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case isOurs(err):
		return err
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrKeyNotFound):
		return ErrNotFound
	case errors.Is(err, nats.ErrMaxPayload):
		return ErrTooLarge
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return ErrConflict
		case jetstream.JSErrCodeStreamMessageExceedsMaximum:
			return ErrTooLarge
		case codeAccountExceeded, codeNoResources, codeMemoryExceeded, codeStorageExceeded:
			return fmt.Errorf("%w: %w", ErrFull, err)
		case codeStoreFailed:
			if strings.Contains(api.Description, storeFailedByLimit) {
				return fmt.Errorf("%w: %w", ErrFull, err)
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// isOurs reports whether an error needs no translation.
func isOurs(err error) bool {
	for _, ours := range [...]error{ErrNotFound, ErrExists, ErrConflict, ErrFull, ErrTooLarge, ErrUnavailable, ErrNoAnswer, ErrUnreadable} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}

// isGone reports whether a stream is not there any more, so that it has to be looked for.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrNoResponders)
}
