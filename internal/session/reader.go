// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Errors of readers.
var (
	// ErrTaken: a newer connection reads the stream.
	ErrTaken = errors.New("session: replaced by another reader")
	// ErrPaused: a quiet period has begun; the reader should disconnect and resume
	// later.
	ErrPaused = errors.New("session: the stream is quiet for a while")
	// ErrLost: the requested events are no longer kept.
	ErrLost = errors.New("session: the event is no longer kept")
)

// Reader reads a stream for one connection.
type Reader struct {
	stream *Stream
	next   uint64
	// holds: the event before next was given to the connection last.
	holds bool
	taken bool
	began time.Time
	news  chan struct{}
}

// Read starts reading at the first unread event. A stream has one reader, the
// newest, because an older connection may be dead without notice.
func (st *Stream) Read() *Reader {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read(max(st.unread, st.first))
}

// Greet is Read, but starts with an empty event if there is nothing else to
// read, so that the client has an id for resumption at once.
func (st *Stream) Greet() *Reader {
	st.mu.Lock()
	isRead := st.unread >= st.end() && !st.ended
	if isRead && st.stored == nil {
		st.add(kept{})
	}
	st.mu.Unlock()
	if isRead && st.stored != nil {
		_ = st.append(nil, false) // else it has ended
	}
	return st.Read()
}

// Resume continues the stream of an event, after that event, also one of another replica.
// The reader must be closed. The errors are [ErrLost] if the event is unknown, or if later
// events are no longer kept, and with a store [ErrUnavailable], [ErrUnknown], [ErrClosed] and
// the cause of ctx.
func (s *Session) Resume(ctx context.Context, eventID string) (*Reader, error) {
	name, event, ok := strings.Cut(eventID, "-")
	seen, err := strconv.ParseUint(event, 10, 64)
	if !ok || err != nil {
		return nil, ErrLost
	}
	s.mu.Lock()
	st := s.streams[name]
	s.mu.Unlock()
	now := time.Now()
	if st != nil && eventID == name+"-"+strconv.FormatUint(seen, 10) {
		if r := st.resume(seen); r != nil {
			if s.shared != nil {
				s.movedHere(ctx, name, nil, now)
			}
			return r, nil
		}
	}
	if s.shared == nil {
		return nil, ErrLost
	}
	return s.resumeStored(ctx, name, seen)
}

// resume reads on behind an event; nil if it is not kept here.
func (st *Stream) resume(seen uint64) *Reader {
	st.mu.Lock()
	defer st.mu.Unlock()
	at, isHere := st.position(seen)
	if !isHere {
		return nil
	}
	st.paused = false // the client has come back, as it was asked to
	return st.read(at + 1)
}

// read makes the newest reader; st.mu is held.
func (st *Stream) read(from uint64) *Reader {
	r := &Reader{stream: st, next: from, news: make(chan struct{}, 1), began: time.Now()}
	if old := st.reader; old != nil {
		old.taken = true
		st.wake()
	}
	st.reader = r
	return r
}

// IsMain reports whether the reader reads [Session.Main].
func (r *Reader) IsMain() bool {
	s := r.stream.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.main == r.stream
}

// BegunBy returns the span that [Stream.BegunBy] kept; not valid for none.
func (r *Reader) BegunBy() tracing.Context {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.begunBy == nil {
		return tracing.Context{}
	}
	return *st.begunBy
}

// Poll returns the next event without waiting; false if there is none yet. The
// errors are [ErrEnded], [ErrTaken], [ErrPaused] and [ErrLost].
func (r *Reader) Poll() (Event, bool, error) {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case r.taken:
		return Event{}, false, ErrTaken
	case r.next < st.first:
		return Event{}, false, ErrLost
	case r.next < st.end():
		e := Event{ID: st.id(r.next), Message: st.events[r.next-st.first].message}
		r.next++
		r.holds = true
		st.unread = max(st.unread, r.next)
		st.fed.read()
		return e, true, nil
	case st.ended:
		return Event{}, false, ErrEnded
	case st.paused:
		return Event{}, false, ErrPaused
	}
	return Event{}, false, nil
}

// Return returns the last event to the stream, because it did not reach its
// client: the next reader gets it first. It has no effect once another reader
// has taken over.
func (r *Reader) Return() {
	st := r.stream
	if r.giveBack() && st.stored != nil {
		st.stored.owes.Store(true)
		st.session.manager.owe(st)
	}
}

// giveBack is Return, and reports whether the event that was returned has to be stored.
func (r *Reader) giveBack() (owed bool) {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.holds && !r.taken && st.unread == r.next {
		r.next--
		st.unread--
		owed = r.next >= st.first && st.events[r.next-st.first].sequence == 0
	}
	r.holds = false
	return owed
}

// News returns a channel with a token when Poll may have something new.
func (r *Reader) News() <-chan struct{} { return r.news }

// Next is Poll with waiting. It may also return the cause of ctx.
func (r *Reader) Next(ctx context.Context) (Event, error) {
	for {
		e, ok, err := r.Poll()
		if ok || err != nil {
			return e, err
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// Close releases the stream for the next reader.
func (r *Reader) Close() {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	if r.stream.reader == r {
		r.stream.reader = nil
	}
	r.stream.fed.stop()
}
