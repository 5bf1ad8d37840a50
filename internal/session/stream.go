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
	// ID identifies the event within its session: a client resumes after it.
	ID string
	// Message is one JSON-RPC message; empty for an event that only has an id for
	// resumption.
	Message []byte
}

// eventBytes is what an event costs beside its message.
const eventBytes = 32

// Stream is an ordered series of messages to the client. Its replay buffer has the
// newest messages, so that a client whose connection broke misses nothing and gets
// nothing twice. Make one with [Session.NewStream].
type Stream struct {
	session *Session
	number  uint64

	// These belong to the replay buffer and its lock.
	since time.Time     // of the end
	place *list.Element // of all, and own of its caller's
	own   *list.Element

	mu sync.Mutex
	// begunBy is the span of its request; nil without tracing.
	begunBy *tracing.Context
	events  [][]byte // the messages of the events that are kept
	first   uint64   // the number of events[0]; events are numbered from 1
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
func (s *Session) NewStream() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	return s.newStream()
}

// BegunBy keeps the span of the request whose stream it is, so that connections which resume the stream can name it. One that is not
// valid is not kept.
func (st *Stream) BegunBy(span tracing.Context) {
	if !span.IsValid() {
		return
	}
	kept := span // only this one is moved to the heap
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begunBy = &kept
}

func (s *Session) newStream() *Stream {
	s.numbered++
	st := &Stream{session: s, number: s.numbered, first: 1, unread: 1, ended: s.isClosed, counted: !s.isClosed}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.add(nil)
	if s.isClosed {
		return st
	}
	if s.streams == nil {
		s.streams = map[uint64]*Stream{}
	}
	s.streams[st.number] = st
	s.order = append(s.order, st)
	return st
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
	delete(s.streams, st.number)
	s.order = slices.Delete(s.order, at, at+1)
	st.uncount()
}

// Main returns the stream of messages that belong to no request. It lasts as long as
// the session.
func (s *Session) Main() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		s.main = s.newStream()
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

func (st *Stream) id(event uint64) string {
	return strconv.FormatUint(st.number, 10) + "-" + strconv.FormatUint(event, 10)
}

// Send appends a message, which then belongs to the stream. It never waits for
// readers. The error is [ErrEnded].
func (st *Stream) Send(message []byte) error {
	if err := st.send(message); err != nil {
		return err
	}
	st.session.manager.replay.shed(st.session.account)
	return nil
}

func (st *Stream) send(message []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return ErrEnded
	}
	st.paused = false
	st.add(message)
	st.wake()
	return nil
}

// add appends an event and forgets the oldest ones for which there is no room:
// beyond the stream's own bounds; where the caller keeps more than its share, or all
// together keep too much, those that a client has had; and where the caller keeps
// more than any may, unread ones too. The newest one always stays.
// st.mu is held.
func (st *Stream) add(message []byte) {
	o, replay, account := &st.session.manager.opts, st.session.manager.replay, st.session.account
	before := st.bytes
	st.events = append(st.events, message)
	st.bytes += len(message) + eventBytes
	isOver, surplus := st.counted && replay.isOver(account), 0
	if isOver {
		surplus = replay.surplus(account)
	}
	for len(st.events) > 1 && (len(st.events) > o.MaxEvents || st.bytes > o.MaxBytes || isOver && st.first < st.unread || surplus > 0) {
		size := len(st.events[0]) + eventBytes
		st.bytes -= size
		surplus -= size
		st.events[0] = nil
		st.events = st.events[1:]
		st.first++
	}
	if st.counted {
		replay.count(account, st.bytes-before)
	}
}

// Pause starts a quiet period: the reader, if any, disconnects and resumes later.
// The next message ends the pause, and so does a client that resumes.
func (st *Stream) Pause() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.ended {
		st.paused = true
		st.wake()
	}
}

// End ends the stream: readers get the remaining messages, and then [ErrEnded].
func (st *Stream) End() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	st.ended = true
	st.wake()
	if st.counted {
		st.session.manager.replay.put(st)
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
