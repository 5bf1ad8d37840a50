// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
)

const (
	// nameBytes are the randomness of a stream's name: its session has few.
	nameBytes = 8
	// mainPrefix begins the names of streams of what belongs to no request. It is not
	// hexadecimal.
	mainPrefix = "m"
)

// newStreamName returns a name that no other replica gives.
func newStreamName(isMain bool) string {
	var raw [nameBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	if isMain {
		return mainPrefix + hex.EncodeToString(raw[:])
	}
	return hex.EncodeToString(raw[:])
}

func isMainName(name string) bool { return strings.HasPrefix(name, mainPrefix) }

// storedStream is the place of a stream in the store. Its lock comes before all others.
type storedStream struct {
	begun Begun

	mu sync.Mutex
	// after is the sequence of the last event, number its number.
	after, number uint64
	// doubtful is the number of an event that may have been stored although its append failed;
	// zero for none.
	doubtful uint64
	// ends: the stream has ended here, and the store does not know it yet.
	ends bool
}

func newStoredStream(b Begun) *storedStream { return &storedStream{begun: b} }

// store stores a message, and returns the sequence of its event; 0 where the store is away,
// or the message too large for it. An error means that another replica has taken the stream
// over. The lock of the stored stream is held.
func (st *Stream) store(message []byte, last bool) (uint64, error) {
	sequence, err := st.tryStore(context.Background(), message, last)
	switch {
	case errors.Is(err, ErrConflict):
		return 0, err
	case err != nil:
		st.stored.ends = last
	}
	return sequence, nil //nolint:nilerr // a reader here gets the message without an id, and settle tries again
}

// tryStore stores an event behind those that were stored. The errors are [ErrConflict] where
// the stream is another replica's now, [ErrLarge] and [ErrUnavailable].
func (st *Stream) tryStore(ctx context.Context, message []byte, last bool) (uint64, error) {
	p, store := st.stored, st.session.manager.fleet.store
	if !store.IsAvailable() {
		return 0, ErrUnavailable
	}
	key := st.session.shared.key
	e := StoredEvent{Replica: store.Self(), Number: p.number + 1, Message: message, Last: last, Begun: p.begun}
	for {
		sequence, err := store.Append(ctx, key, st.name, e, p.after)
		switch {
		case err == nil:
			p.after, p.number, p.doubtful = sequence, e.Number, 0
			return sequence, nil
		case errors.Is(err, ErrUnavailable):
			p.doubtful = e.Number
			return 0, err
		case !errors.Is(err, ErrConflict) || p.doubtful == 0:
			return 0, err
		}
		// The append before may have come through, and only the word of it not.
		is, err := store.Last(ctx, key, st.name)
		if err != nil {
			return 0, err
		}
		if is.Replica != store.Self() || is.Sequence <= p.after || is.Number != p.doubtful {
			return 0, ErrConflict
		}
		// Its message may be another one than this: the client has had that without an id.
		p.after, p.number, p.doubtful = is.Sequence, is.Number, 0
		e.Number = p.number + 1
	}
}

// settle stores the events that were neither stored nor read, and the end of the stream. The
// error is [ErrUnavailable]: try again.
func (st *Stream) settle(ctx context.Context) error {
	st.stored.mu.Lock()
	defer st.stored.mu.Unlock()
	for {
		message, at, ok := st.unsettled()
		if !ok {
			break
		}
		sequence, err := st.tryStore(ctx, message, false)
		switch {
		case errors.Is(err, ErrConflict):
			st.fenced()
			return nil
		case errors.Is(err, ErrLarge):
			return nil // its reader may still come back to this replica
		case err != nil:
			return err
		}
		st.settled(at, sequence)
	}
	if !st.stored.ends {
		return nil
	}
	_, err := st.tryStore(ctx, nil, true)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	st.stored.ends = false
	return nil
}

// unsettled is the first event that was neither stored nor read, and its position.
func (st *Stream) unsettled() (message []byte, at uint64, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, e := range st.events {
		if at := st.first + uint64(i); at >= st.unread && e.sequence == 0 {
			return e.message, at, true
		}
	}
	return nil, 0, false
}

// settled gives an event its id.
func (st *Stream) settled(at, sequence uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if at >= st.first && at < st.end() {
		st.events[at-st.first].sequence = sequence
	}
}

// fenced ends a stream that another replica has taken over, and the request behind it.
func (st *Stream) fenced() {
	st.close()
	st.take()
	st.session.forgetStream(st)
	if st.stored.begun.RequestID != nil && st.session.manager.opts.Cancel != nil {
		st.session.manager.opts.Cancel(st.session.origin, st.stored.begun.RequestID, "another replica answered the request")
	}
}
