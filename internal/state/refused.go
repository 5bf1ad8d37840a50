// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// doubtFor is how long a refusal without an explanation is doubted. A leader that was cut off hears of its successor with the
	// next heartbeat, and NATS sends one each second.
	doubtFor = time.Second
	// doubtAgain is the first pause before a write that was refused is tried again. The next ones are longer, up to staleAgain.
	doubtAgain = time.Millisecond
)

// errUnexplained means that a refusal is doubted to the end: the server that gives it may be cut off from its successor for longer.
var errUnexplained = errors.New("a server refuses the write, and no message that is stored explains why")

// conditional is a write on the condition that the last message of a subject has a sequence.
type conditional struct {
	subject string
	last    uint64
	// publish tries the write, and returns the sequence of its message. All tries write the same message.
	publish func() (uint64, error)
	// isOurs reports whether a message of the subject is that of this very write.
	isOurs func(*jetstream.RawStreamMsg) bool
	// isEmpty reports whether the subject has no message, by the word of a server that must know.
	isEmpty func() (bool, error)
}

// store makes the write, and returns the sequence of its message. The error is classified.
//
// A refusal may come from a server that no longer leads. A leader that was cut off or stopped acts as the leader until it hears of its
// successor. Both get the write; the former leader refuses it, because it lacks the latest messages, and its answer may arrive before
// that of the new leader, which stores it. So a refusal counts only if the last message is newer than expected and not ours. Until
// then the write is tried again. Its condition makes sure that it is stored at most once. A leader that stays cut off also refuses a
// second try because of the first, which it has taken and cannot store: that is no conflict, and the outcome is unknown.
func (w conditional) store(ctx context.Context, s jetstream.Stream) (uint64, error) {
	pause := doubtAgain
	for began := time.Now(); ; pause = min(2*pause, staleAgain) {
		sequence, err := w.publish()
		if err = classify(ctx, err); !errors.Is(err, ErrConflict) || s.CachedInfo().Config.Replicas <= 1 {
			return sequence, err
		}
		refusal := err
		raw, err := s.GetLastMsgForSubject(ctx, w.subject)
		err = classify(ctx, err)
		switch {
		case err == nil && w.isOurs(raw):
			return raw.Sequence, nil
		case err == nil && raw.Sequence > w.last:
			return 0, refusal
		case err == nil: // who has refused it, or who has answered now, is behind; or the write of another is on its way
		case errors.Is(err, ErrNotFound) && w.last > 0:
			isEmpty, unsure := w.isEmpty()
			if unsure != nil {
				return 0, unsure
			}
			if isEmpty {
				return 0, refusal
			}
		case !errors.Is(err, ErrNotFound):
			return 0, err
		}
		if time.Since(began) > doubtFor {
			if err == nil && raw.Sequence < w.last { // it expects a message that was never stored, if a leader of a majority says so
				if _, unsure := w.isEmpty(); unsure == nil {
					return 0, refusal
				}
			}
			return 0, fmt.Errorf("%w: %w", ErrUnavailable, errUnexplained)
		}
		select {
		case <-ctx.Done():
			return 0, classify(ctx, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
