// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// nameBytes are the randomness of a stream's name: its session has few.
	nameBytes = 8
	// mainPrefix begins the names of streams of what belongs to no request. It is not
	// hexadecimal.
	mainPrefix = "m"
	// untold is the catalog of a client that was not told of what was meant for it.
	untold = "none"
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
	// after is the sequence of the last event, number the highest that an event was given.
	after, number uint64
	// doubts are events that may have been stored although their appends failed: at most one
	// was, because all were to come after the same one.
	doubts []doubt
	// owes: there may be events that have to be stored before the next one. It needs no lock.
	// Those before kept are too large for the store.
	owes atomic.Bool
	kept uint64
	// ends: the stream has ended here, and the store does not know it yet.
	ends bool
}

// doubt is what an append that failed would have stored: the event at a position, with its
// number, or the end of the stream.
type doubt struct {
	number, at uint64
	last       bool
}

func newStoredStream(b Begun) *storedStream { return &storedStream{begun: b} }

// store stores a message behind those that wait for it, and returns the sequence of its
// event; 0 where the store is away, or the message too large for it. An error means that
// another replica has taken the stream over. The lock of the stored stream is held.
func (st *Stream) store(message []byte, last bool) (sequence uint64, err error) {
	ctx := context.Background()
	if st.stored.owes.Load() {
		err = st.storeOwed(ctx)
	}
	if err == nil {
		sequence, err = st.tryStore(ctx, message, st.next(), last)
	}
	if errors.Is(err, ErrConflict) {
		return 0, err
	}
	if err != nil {
		st.stored.ends = last
		st.stored.owes.Store(true)
	}
	return sequence, nil // a reader here gets the message without an id, and settle tries again
}

// next is the position of the event that comes next.
func (st *Stream) next() uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.end()
}

// tryStore stores the event at a position behind those that were stored. The errors are
// [ErrConflict] where the stream is another replica's now, [ErrLarge] and [ErrUnavailable].
func (st *Stream) tryStore(ctx context.Context, message []byte, at uint64, last bool) (uint64, error) {
	p, store := st.stored, st.session.manager.fleet.store
	if !store.IsAvailable() {
		return 0, ErrUnavailable
	}
	key := st.session.shared.key
	number := p.numberOf(at, last)
	for {
		e := StoredEvent{Replica: store.Self(), Number: number, Message: message, Last: last, Begun: p.begun}
		sequence, err := store.Append(ctx, key, st.name, e, p.after)
		switch {
		case err == nil:
			p.after, p.doubts = sequence, nil
			return sequence, nil
		case errors.Is(err, ErrLarge):
			return 0, err
		case !errors.Is(err, ErrConflict):
			p.doubts = append(slices.DeleteFunc(p.doubts, func(d doubt) bool { return d.number == number }), doubt{number, at, last})
			return 0, err
		}
		is, err := st.reconcile(ctx)
		switch {
		case err != nil:
			return 0, err
		case is == number:
			return p.after, nil
		case is == partial:
			number = p.numberOf(at, last)
		}
	}
}

// numberOf is the number of an event: a new one, unless it is in doubt.
func (p *storedStream) numberOf(at uint64, last bool) uint64 {
	for _, d := range p.doubts {
		if d.at == at && d.last == last {
			return d.number
		}
	}
	p.number++
	return p.number
}

// partial stands for the number of an event of which only a part was stored.
const partial = 0

// reconcile finds out why an event cannot be stored behind the last one that is known. An
// append before may have come through, and only the word of it not: then it returns the
// number of that event. Or all that was stored has been dropped since. The errors are
// [ErrConflict] where it is neither, and [ErrUnavailable].
func (st *Stream) reconcile(ctx context.Context) (uint64, error) {
	p, store := st.stored, st.session.manager.fleet.store
	is, err := store.Last(ctx, st.session.shared.key, st.name)
	switch {
	case errors.Is(err, ErrLost) && p.after > 0:
		p.after = 0
		return partial, nil
	case errors.Is(err, ErrLost):
		return 0, ErrConflict
	case err != nil:
		return 0, err
	}
	which := slices.IndexFunc(p.doubts, func(d doubt) bool { return d.number == is.Number })
	if which < 0 || is.Replica != store.Self() || is.Sequence <= p.after {
		return 0, ErrConflict
	}
	d := p.doubts[which]
	p.after, p.doubts = is.Sequence, nil
	if is.Partial { // its rest never came: all of it is stored again, with another number
		return partial, nil
	}
	st.settled(d.at, is.Sequence)
	return d.number, nil
}

// settle stores the events that were neither stored nor read, and the end of the stream. The
// error is [ErrUnavailable]: try again.
func (st *Stream) settle(ctx context.Context) error {
	st.stored.mu.Lock()
	defer st.stored.mu.Unlock()
	err := st.storeOwed(ctx)
	if errors.Is(err, ErrConflict) {
		st.fenced()
		return nil
	}
	return err
}

// storeOwed is settle with the lock of the stored stream held, and also returns [ErrConflict].
func (st *Stream) storeOwed(ctx context.Context) error {
	p := st.stored
	p.owes.Store(false)
	for {
		message, at, last, ok := st.unsettled()
		if !ok {
			break
		}
		sequence, err := st.tryStore(ctx, message, at, last)
		switch {
		case errors.Is(err, ErrLarge):
			p.kept = at + 1 // its reader may still come back to this replica
			continue
		case err != nil:
			p.owes.Store(true)
			return err
		}
		st.settled(at, sequence)
		if last {
			p.ends = false
		}
	}
	if !p.ends {
		return nil
	}
	if _, err := st.tryStore(ctx, nil, st.next(), true); err != nil {
		p.owes.Store(true)
		return err
	}
	p.ends = false
	return nil
}

// unsettled is the first event that was neither stored nor read, its position, and whether it
// is the last one. The last one, which is the answer to a request, is stored even if it was
// read: a client that comes back for it has not had it.
func (st *Stream) unsettled() (message []byte, at uint64, last, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, e := range st.events {
		at, last := st.first+uint64(i), st.stored.ends && i == len(st.events)-1
		if e.sequence == 0 && at >= st.stored.kept && (at >= st.unread || last) {
			return e.message, at, last, true
		}
	}
	return nil, 0, false, false
}

// settled gives an event its id.
func (st *Stream) settled(at, sequence uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if at >= st.first && at < st.end() {
		st.events[at-st.first].sequence = sequence
	}
}

// fenced ends a stream that another replica has taken over, and the request behind it. If it
// is that of what belongs to no request, and this replica tells that, there will be another
// one, on which all is told again.
func (st *Stream) fenced() {
	st.close()
	st.take()
	s := st.session
	s.forgetStream(st)
	s.mu.Lock()
	if s.main == st {
		s.main = nil
		if s.shared.isTeller {
			s.missAll(true)
			s.shared.told = untold
			s.manager.mark(s)
		}
	}
	s.mu.Unlock()
	if st.stored.begun.RequestID != nil && s.manager.opts.Cancel != nil {
		s.manager.opts.Cancel(s.origin, st.stored.begun.RequestID, "another replica answered the request")
	}
}
