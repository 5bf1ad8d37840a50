// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// ErrEnded means that the stream has ended and all events were read.
var ErrEnded = errors.New("session: the stream has ended")

// Event is one message on a stream.
type Event struct {
	// ID identifies the event within its session: a client resumes after it. It is empty for
	// one that could not be stored for other replicas.
	ID string
	// Message is one JSON-RPC message; empty for an event that only has an id for
	// resumption.
	Message []byte
}

// kept is an event that a stream keeps.
type kept struct {
	// sequence is its place in the store; 0 if it is not there.
	sequence uint64
	message  []byte
}

// eventBytes is what an event costs beside its message.
const eventBytes = 32

// Stream is an ordered series of messages to the client. Its replay buffer has the
// newest messages, so that a client whose connection broke misses nothing and gets
// nothing twice. Make one with [Session.NewStream].
type Stream struct {
	session *Session
	// name identifies it within its session. number counts those of a session that nobody shares.
	name   string
	number uint64
	// stored is its place in the store; nil without one. fed is set if the events are those of
	// another replica: then it has room for more when its reader has read.
	stored *storedStream
	fed    *feeder

	// These belong to the replay buffer and its lock.
	since time.Time     // of the end
	place *list.Element // of all, and own of its caller's
	own   *list.Element

	mu sync.Mutex
	// begunBy is the span of its request; nil without tracing.
	begunBy *tracing.Context
	events  []kept
	first   uint64 // the number of events[0]; events are numbered from 1
	bytes   int
	// counted: the stream can be resumed, and the replay buffer counts its bytes.
	counted bool
	ended   bool
	paused  bool
	reader  *Reader
	unread  uint64 // the number of the first event that no reader had
}

// NewStream starts a stream with an empty event, which gives the client an id. At
// the limit, the session drops the oldest ended stream, or if none has ended, the
// oldest: its messages still go to the connection that reads it, but it cannot be
// resumed.
func (s *Session) NewStream() *Stream { return s.NewStreamFor(Begun{}, true) }

// NewStreamFor is NewStream with what other replicas have to know of the stream. greets: the
// client knows events that only have an id.
func (s *Session) NewStreamFor(b Begun, greets bool) *Stream {
	s.mu.Lock()
	s.makeRoom()
	st := s.newStream(b)
	s.mu.Unlock()
	if st.stored != nil && greets {
		_ = st.append(nil, false) // a stream of a session that has ended
	}
	return st
}

// BegunBy keeps the span of the request whose stream it is, so that connections which resume the stream can name it. One that is not
// valid is not kept.
func (st *Stream) BegunBy(span tracing.Context) {
	if !span.IsValid() {
		return
	}
	if st.stored != nil {
		st.stored.mu.Lock()
		st.stored.begun.Span = tracing.AppendContext(nil, span)
		st.stored.mu.Unlock()
	}
	kept := span // only this one is moved to the heap
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begunBy = &kept
}

func (s *Session) newStream(b Begun) *Stream {
	s.numbered++
	st := &Stream{session: s, number: s.numbered, first: 1, unread: 1, ended: s.isClosed, counted: !s.isClosed}
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.shared != nil {
		st.stored = newStoredStream(b)
		st.name = newStreamName(b.IsMain)
	} else {
		st.name = strconv.FormatUint(st.number, 10)
		st.add(kept{})
	}
	if !s.isClosed {
		s.list(st)
	}
	return st
}

// list makes a stream one that can be resumed; s.mu is held.
func (s *Session) list(st *Stream) {
	if s.streams == nil {
		s.streams = map[string]*Stream{}
	}
	s.streams[st.name] = st
	s.order = append(s.order, st)
}

// makeRoom forgets a stream where there are as many as there may be, besides the
// main one; s.mu is held.
func (s *Session) makeRoom() {
	kept := len(s.order)
	if s.main != nil {
		kept--
	}
	if kept < s.manager.opts.MaxStreams {
		return
	}
	at := slices.IndexFunc(s.order, func(st *Stream) bool { return st != s.main && st.hasEnded() })
	if at < 0 {
		at = slices.IndexFunc(s.order, func(st *Stream) bool { return st != s.main })
	}
	if at >= 0 {
		s.dropStream(at)
	}
}

// forgetStream ends the resumption of a stream.
func (s *Session) forgetStream(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.order, st); at >= 0 {
		s.dropStream(at)
	}
}

// dropStream is forgetStream by place; s.mu is held.
func (s *Session) dropStream(at int) {
	st := s.order[at]
	delete(s.streams, st.name)
	s.order = slices.Delete(s.order, at, at+1)
	st.uncount()
}

// Main returns the stream of messages that belong to no request. It lasts as long as
// the session.
func (s *Session) Main() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		s.main = s.newStream(Begun{IsMain: true})
	}
	return s.main
}

// uncount takes the stream out of what is counted. A reader that is still at it
// gets the rest.
func (st *Stream) uncount() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.counted {
		return
	}
	st.counted = false
	replay := st.session.manager.replay
	replay.count(st.session.account, -st.bytes)
	replay.remove(st)
}

func (st *Stream) hasEnded() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ended
}

// end is the number of the event that comes next; st.mu is held.
func (st *Stream) end() uint64 { return st.first + uint64(len(st.events)) }

// id is that of the event at a position; st.mu is held.
func (st *Stream) id(event uint64) string {
	if st.stored != nil || st.fed != nil {
		if event = st.events[event-st.first].sequence; event == 0 {
			return ""
		}
	}
	return st.name + "-" + strconv.FormatUint(event, 10)
}

// position is that of the event with a number from an id; false if there is none. st.mu is
// held.
func (st *Stream) position(number uint64) (uint64, bool) {
	if st.stored == nil {
		return number, number > 0 && number < st.end() && number+1 >= st.first
	}
	for i, e := range st.events {
		if e.sequence == number && number > 0 {
			return st.first + uint64(i), true
		}
	}
	return 0, false
}

// Send appends a message, which then belongs to the stream. It never waits for
// readers. With a store, the message is stored first; where that is away, the event has no
// id. The error is [ErrEnded], also where another replica has taken the stream over.
func (st *Stream) Send(message []byte) error { return st.append(message, false) }

// Finish is Send and End in one. An empty message only ends the stream.
func (st *Stream) Finish(message []byte) error {
	if st.stored != nil {
		return st.append(message, true)
	}
	var err error
	if len(message) > 0 {
		err = st.append(message, false)
	}
	st.close()
	return err
}

// append adds an event, and stores it before that where there is a store.
func (st *Stream) append(message []byte, last bool) error {
	sequence := uint64(0)
	if st.stored != nil {
		st.stored.mu.Lock()
		defer st.stored.mu.Unlock()
		if st.hasEnded() {
			return ErrEnded
		}
		var err error
		if sequence, err = st.store(message, last); err != nil {
			st.fenced()
			return ErrEnded
		}
	}
	if err := st.send(kept{sequence: sequence, message: message}, last); err != nil {
		return err
	}
	if st.stored != nil && sequence == 0 {
		st.session.manager.owe(st)
	}
	st.session.manager.replay.shed(st.session.account)
	return nil
}

func (st *Stream) send(e kept, last bool) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return ErrEnded
	}
	st.paused = false
	if !last || len(e.message) > 0 {
		st.add(e)
	}
	st.wake()
	if last {
		st.endLocked()
	}
	return nil
}

// add appends an event and forgets the oldest ones for which there is no room:
// beyond the stream's own bounds; where the caller keeps more than its share, or all
// together keep too much, those that a client has had; and where the caller keeps
// more than any may, unread ones too. The newest one always stays.
// st.mu is held.
func (st *Stream) add(e kept) {
	o, replay, account := &st.session.manager.opts, st.session.manager.replay, st.session.account
	before := st.bytes
	st.events = append(st.events, e)
	st.bytes += len(e.message) + eventBytes
	isOver, surplus := st.counted && replay.isOver(account), 0
	if isOver {
		surplus = replay.surplus(account)
	}
	for len(st.events) > 1 && (len(st.events) > o.MaxEvents || st.bytes > o.MaxBytes || isOver && st.first < st.unread || surplus > 0) {
		size := len(st.events[0].message) + eventBytes
		st.bytes -= size
		surplus -= size
		st.events[0] = kept{}
		st.events = st.events[1:]
		st.first++
	}
	if st.counted {
		replay.count(account, st.bytes-before)
	}
}

// Pause starts a quiet period: the reader, if any, disconnects and resumes later.
// The next message ends the pause, and so does a client that resumes. A stream whose last
// event has no id is not paused.
func (st *Stream) Pause() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stored != nil && (len(st.events) == 0 || st.events[len(st.events)-1].sequence == 0) {
		return
	}
	if !st.ended {
		st.paused = true
		st.wake()
	}
}

// End ends the stream: readers get the remaining messages, and then [ErrEnded].
func (st *Stream) End() {
	if st.stored != nil {
		_ = st.append(nil, true)
		return
	}
	st.close()
}

// close ends the stream here, whatever is stored.
func (st *Stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.endLocked()
}

// endLocked is close; st.mu is held.
func (st *Stream) endLocked() {
	if st.ended {
		return
	}
	st.ended = true
	st.wake()
	if st.counted {
		st.session.manager.replay.put(st)
	}
}

// take takes the stream from its reader, because another replica reads it.
func (st *Stream) take() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.reader != nil {
		st.reader.taken = true
		st.wake()
	}
}

// takeBefore is take, unless the reader began later than another one at another replica, whose
// message was on its way. It always takes where that time is unknown.
func (st *Stream) takeBefore(at time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if r := st.reader; r != nil && (at.IsZero() || r.began.Before(at)) {
		r.taken = true
		st.wake()
	}
}

// wake tells the reader that there is something new; st.mu is held.
func (st *Stream) wake() {
	if st.reader == nil {
		return
	}
	select {
	case st.reader.news <- struct{}{}:
	default:
	}
}
