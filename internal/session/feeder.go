// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

const (
	// feedAhead is how many events a feeder reads before their reader has had them.
	feedAhead = 64
	// feedPause is between two attempts to read on, and aliveEvery between two looks at the
	// replica whose stream it is, where nobody says that it has gone.
	feedPause  = 250 * time.Millisecond
	aliveEvery = 5 * time.Second
	// lostAgain is how often it is looked again for an event that the store does not know, lostPause the time between.
	lostAgain = 4
	lostPause = 100 * time.Millisecond
)

// feeder fills a stream with the events of another replica, for one reader.
type feeder struct {
	cancel context.CancelFunc
	// room gets a token when the reader has read.
	room chan struct{}
}

// read tells that the reader has read. It may be called on nil.
func (f *feeder) read() {
	if f == nil {
		return
	}
	select {
	case f.room <- struct{}{}:
	default:
	}
}

// stop ends the feeder. It may be called on nil.
func (f *feeder) stop() {
	if f != nil {
		f.cancel()
	}
}

// resumeStored continues a stream of the store behind the event with a sequence.
func (s *Session) resumeStored(ctx context.Context, name string, seen uint64) (*Reader, error) {
	if !isStreamName(name) || seen == 0 {
		return nil, ErrLost
	}
	if isMainName(name) {
		return s.resumeMain(ctx, name, seen)
	}
	now := time.Now()
	if err := s.hasStored(ctx, name, seen); err != nil {
		return nil, err
	}
	feeding, cancel := context.WithCancel(context.Background())
	f := &feeder{cancel: cancel, room: make(chan struct{}, 1)}
	st := &Stream{session: s, name: name, first: 1, unread: 1, fed: f}
	reader := st.Read()
	began := make(chan error, 1)
	go f.run(feeding, st, seen, began)
	select {
	case err := <-began:
		if err != nil {
			cancel()
			return nil, err
		}
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
	// The connection before may be dead without notice; if it is not, it must not get the
	// same events. An error is that of a store that is away: then nobody reads here either.
	s.movedHere(ctx, name, st, now)
	return reader, nil
}

// hasStored returns an error unless the store has an event of a stream with a sequence or a later one. A client has the
// sequence from an event that was stored; right after a change of its leader, the store may not know it for a moment.
func (s *Session) hasStored(ctx context.Context, name string, seen uint64) error {
	for again := 0; ; again++ {
		last, err := s.manager.fleet.store.Last(ctx, s.shared.key, name)
		switch {
		case err == nil && seen <= last.Sequence:
			return nil
		case err != nil && !errors.Is(err, ErrLost):
			return err
		case again == lostAgain:
			return ErrLost
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lostPause):
		}
	}
}

// movedHere tells all replicas that the client reads a stream here, with another one of its
// connections than before, which began at a time; fed is nil where the stream is that of this
// replica.
func (s *Session) movedHere(ctx context.Context, name string, fed *Stream, began time.Time) {
	s.mu.Lock()
	before := s.fed[name]
	switch {
	case fed == nil, fed.hasEnded(): // unfed comes after its end
		delete(s.fed, name)
	case s.fed == nil:
		s.fed = map[string]*Stream{name: fed}
	default:
		s.fed[name] = fed
	}
	s.mu.Unlock()
	if before != nil {
		before.take()
	}
	store := s.manager.fleet.store
	_ = store.Tell(ctx, Message{Key: s.shared.key, Moved: &Moved{Stream: name, To: store.Self(), At: began}})
}

// unfed forgets a stream that is not fed any more.
func (s *Session) unfed(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fed[st.name] == st {
		delete(s.fed, st.name)
	}
}

// isStreamName reports whether a name can be that of a stored stream.
func isStreamName(name string) bool {
	if isMainName(name) {
		name = name[len(mainPrefix):]
	}
	if len(name) != 2*nameBytes {
		return false
	}
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// errEnd is why reading a stream that has ended ends.
var errEnd = errors.New("session: the end of a stored stream")

// run feeds the stream until it has ended, its reader has gone, or its session has ended. It
// begins with the event that the client has had, and reports on began whether that is there.
func (f *feeder) run(ctx context.Context, st *Stream, seen uint64, began chan<- error) {
	defer st.session.unfed(st)
	defer st.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := st.session
	go f.guard(ctx, st)
	next, isFirst := seen, true
	for {
		var err error
		next, err = s.manager.fleet.store.Follow(ctx, s.shared.key, st.name, next, func(e StoredEvent) error {
			if isFirst {
				isFirst = false
				if e.Sequence != seen {
					return ErrLost
				}
				began <- nil
				if e.Last {
					return errEnd
				}
				return nil
			}
			return f.add(ctx, st, e)
		})
		switch {
		case isFirst, errors.Is(err, ErrLost):
			select {
			case began <- err:
			default: // it had begun: what comes next was dropped meanwhile
			}
			return
		case errors.Is(err, errEnd), ctx.Err() != nil:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		case <-time.After(feedPause):
		}
	}
}

// add adds an event when there is room for it.
func (f *feeder) add(ctx context.Context, st *Stream, e StoredEvent) error {
	for !st.hasRoom() {
		select {
		case <-f.room:
		case <-st.session.closed:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	st.mu.Lock()
	if span := tracing.ReadContext(e.Begun.Span); st.begunBy == nil && span.IsValid() {
		st.begunBy = &span
	}
	if !e.Last || len(e.Message) > 0 {
		st.add(kept{sequence: e.Sequence, message: e.Message})
	}
	st.wake()
	st.mu.Unlock()
	if e.Last {
		return errEnd
	}
	return nil
}

// hasRoom reports whether a fed stream may get another event, and forgets those that were
// read.
func (st *Stream) hasRoom() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.first < st.unread && len(st.events) > 0 {
		st.bytes -= len(st.events[0].message) + eventBytes
		st.events[0] = kept{}
		st.events = st.events[1:]
		st.first++
	}
	return len(st.events) < feedAhead && st.bytes < st.session.manager.opts.MaxBytes
}

// guard answers the request of the stream if its replica has gone.
func (f *feeder) guard(ctx context.Context, st *Stream) {
	s := st.session
	store := s.manager.fleet.store
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		departed := store.Departed()
		select {
		case <-ctx.Done():
			return
		case <-s.closed:
			f.cancel()
			return
		case <-departed:
		case <-timer.C:
		}
		if err := s.answerOrphan(ctx, st.name); err == nil {
			timer.Reset(aliveEvery)
		} else {
			timer.Reset(feedPause)
		}
	}
}

// answerOrphan ends a stream whose replica has gone with the reply that says so. Only one
// replica can. The error is [ErrUnavailable], also where it cannot be known yet.
func (s *Session) answerOrphan(ctx context.Context, name string) error {
	store, key := s.manager.fleet.store, s.shared.key
	if !store.Steady() {
		// After an outage of the store, the other replica may not be back yet. The store is not asked: thousands of streams may wait.
		return ErrUnavailable
	}
	last, err := store.Last(ctx, key, name)
	switch {
	case errors.Is(err, ErrLost) || err == nil && last.Last:
		return nil
	case err != nil:
		return err
	}
	if last.Replica == store.Self() {
		// A stream of this very process is in its memory, unless it has dropped it.
		return nil
	}
	alive, err := store.Alive(ctx, last.Replica)
	if err != nil || alive {
		return err
	}
	e := StoredEvent{Replica: store.Self(), Number: last.Number + 1, Last: true, Begun: last.Begun}
	if s.manager.opts.Orphaned != nil {
		e.Message = s.manager.opts.Orphaned(last.Begun)
	}
	_, err = store.Append(ctx, key, name, e, last.Sequence)
	if errors.Is(err, ErrConflict) {
		return nil // another replica was faster
	}
	return err
}

// resumeMain continues a stream of what belongs to no request, and makes this replica the one
// that tells it. What was dropped from the store is told as changed, so nothing is lost.
func (s *Session) resumeMain(ctx context.Context, name string, seen uint64) (*Reader, error) {
	if !s.manager.fleet.store.IsAvailable() {
		return nil, ErrUnavailable
	}
	if err := s.TellHere(ctx); err != nil {
		return nil, err
	}
	store, key := s.manager.fleet.store, s.shared.key
	st := &Stream{session: s, name: name, first: 1, unread: 1, stored: newStoredStream(Begun{IsMain: true})}
	last, err := store.Last(ctx, key, name)
	switch {
	case errors.Is(err, ErrLost):
		s.mu.Lock()
		s.missAll(true)
		s.mu.Unlock()
	case err != nil:
		return nil, err
	case last.Sequence > seen:
		if err := s.readPast(ctx, st, seen, last.Sequence); err != nil {
			return nil, err
		}
	}
	st.stored.after, st.stored.number = last.Sequence, last.Number
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	old := s.main
	if old != nil {
		// It was opened beside: what is unread there comes again.
		s.missAll(true)
		for i, other := range s.order {
			if other == old {
				s.dropStream(i)
				break
			}
		}
	}
	s.main = st
	s.list(st)
	st.mu.Lock()
	st.counted = true
	s.manager.replay.count(s.account, st.bytes)
	st.mu.Unlock()
	s.mu.Unlock()
	if old != nil {
		old.take()
	}
	return st.Read(), nil
}

// readPast reads the events of a stream between one that the client has had and the last one.
func (s *Session) readPast(ctx context.Context, st *Stream, seen, last uint64) error {
	first := true
	_, err := s.manager.fleet.store.Follow(ctx, s.shared.key, st.name, seen, func(e StoredEvent) error {
		if first && e.Sequence != seen {
			s.mu.Lock()
			s.missAll(true)
			s.mu.Unlock()
		}
		first = false
		if e.Sequence > seen && len(e.Message) > 0 {
			st.mu.Lock()
			st.add(kept{sequence: e.Sequence, message: e.Message})
			st.mu.Unlock()
		}
		if e.Sequence >= last {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}
