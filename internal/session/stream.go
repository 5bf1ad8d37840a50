// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Errors of streams and their readers.
var (
	// errEnded: the stream has ended and all events were read.
	errEnded = errors.New("session: the stream has ended")
	// errTaken: a newer connection reads the stream.
	errTaken = errors.New("session: replaced by another reader")
	// ErrPaused: a quiet period has begun; the reader should disconnect and resume later.
	ErrPaused = errors.New("session: the stream is quiet for a while")
	// ErrLost: the requested events are no longer kept.
	ErrLost = errors.New("session: the event is no longer kept")
	// ErrElsewhere: the event is of another process, or of an earlier time of this one.
	ErrElsewhere = errors.New("session: the event is at another replica")
)

// Event is one message on a stream.
type Event struct {
	// ID identifies the event within its session: a client resumes after it.
	ID string
	// Message is one JSON-RPC message; empty for an event that only has an id for resumption.
	Message []byte
}

// eventBytes is what an event costs beside its message.
const eventBytes = 32

// Stream is an ordered series of messages to the client. Its replay buffer has the newest messages, so that a client whose
// connection broke misses nothing and gets nothing twice. Make one with [Session.NewStream].
type Stream struct {
	session *Session
	// name identifies it within its session.
	name string

	// These belong to the replay buffer and its lock.
	since time.Time     // of the end
	place *list.Element // of all, and own of its caller's
	own   *list.Element

	mu sync.Mutex
	// begunBy is the span of its request; nil without tracing.
	begunBy *telemetry.Context
	// madeFor is what its caller saw of results when the stream began.
	madeFor string
	events  [][]byte
	first   uint64 // the number of events[0]; events are numbered from 1
	bytes   int
	// counted: the stream can be resumed, and the replay buffer counts its bytes.
	counted bool
	ended   bool
	paused  bool
	reader  *Reader
	unread  uint64 // the number of the first event that no reader had
}

// NewStream starts a stream with an empty event, which gives the client an id. At the limit, the session drops the oldest ended
// stream, or if none has ended, the oldest: its messages still go to the connection that reads it, but it cannot be resumed.
func (s *Session) NewStream() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	return s.newStream()
}

// BegunBy keeps the span of the request whose stream it is, so that connections which resume the stream can name it. One that
// is not valid is not kept.
func (st *Stream) BegunBy(span telemetry.Context) {
	if !span.IsValid() {
		return
	}
	kept := span // only this one is moved to the heap
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begunBy = &kept
}

// MadeFor keeps what the caller saw of results when the stream began, which those that resume it have to see, too.
func (st *Stream) MadeFor(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.madeFor = key
}

// newStream is NewStream; s.mu is held.
func (s *Session) newStream() *Stream {
	s.numbered++
	st := &Stream{
		session: s, name: s.streamPrefix() + strconv.FormatUint(s.numbered, 10),
		first: 1, unread: 1, ended: s.isClosed, counted: !s.isClosed,
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.add(nil)
	if s.isClosed {
		return st
	}
	if s.streams == nil {
		s.streams = map[string]*Stream{}
	}
	s.streams[st.name] = st
	s.order = append(s.order, st)
	return st
}

// streamPrefix begins the names of streams, so that no other process gives the same. The one that opened the session needs none.
func (s *Session) streamPrefix() string {
	if s.isNew {
		return ""
	}
	return s.nonce + "."
}

// makeRoom forgets a stream where there are as many as there may be, besides the main one; s.mu is held.
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

// Main returns the stream of messages that belong to no request. It lasts as long as the session.
func (s *Session) Main() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		s.main = s.newStream()
	}
	return s.main
}

// uncount takes the stream out of what is counted. A reader that is still at it gets the rest.
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

// nextNumber is the number of the event that comes next; st.mu is held.
func (st *Stream) nextNumber() uint64 { return st.first + uint64(len(st.events)) }

// id is that of the event at a position; st.mu is held.
func (st *Stream) id(event uint64) string {
	return st.name + "-" + strconv.FormatUint(event, 10)
}

// Send appends a message, which then belongs to the stream. It never waits for readers. The error is [errEnded].
func (st *Stream) Send(message []byte) error {
	if err := st.send(message); err != nil {
		return err
	}
	st.session.manager.replay.shed(st.session.account)
	return nil
}

// Finish is Send and End in one. An empty message only ends the stream.
func (st *Stream) Finish(message []byte) error {
	var err error
	if len(message) > 0 {
		err = st.Send(message)
	}
	st.End()
	return err
}

func (st *Stream) send(message []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return errEnded
	}
	st.paused = false
	st.add(message)
	st.wake()
	return nil
}

// add appends an event and forgets the oldest ones for which there is no room: beyond the stream's own bounds; where the caller
// keeps more than its share, or all together keep too much, those that a client has had; and where the caller keeps more than
// any may, unread ones too. The newest one always stays. st.mu is held.
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

// Pause starts a quiet period: the reader, if any, disconnects and resumes later. The next message ends the pause, and so does
// a client that resumes.
func (st *Stream) Pause() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.ended {
		st.paused = true
		st.wake()
	}
}

// End ends the stream: readers get the remaining messages, and then [errEnded].
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

// wake signals that there is something new to read; st.mu is held.
func (st *Stream) wake() {
	if st.reader != nil {
		signal(st.reader.news)
	}
}

// signal sends to a channel that holds one token.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Reader reads a stream for one connection.
type Reader struct {
	stream *Stream
	next   uint64
	// holds: the connection has the event before next.
	holds bool
	taken bool
	news  chan struct{}
}

// Read starts reading at the first unread event. A stream has one reader, the newest, because an older connection may be dead
// without notice.
func (st *Stream) Read() *Reader {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read(max(st.unread, st.first))
}

// Greet is Read, but starts with an empty event if there is nothing else to read, so that the client has an id for resumption
// at once.
func (st *Stream) Greet() *Reader {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unread >= st.nextNumber() && !st.ended {
		st.add(nil)
	}
	return st.read(max(st.unread, st.first))
}

// eventPattern is that of event ids: the prefix of a stream's name, its number, and that of the event.
var eventPattern = regexp.MustCompile(`^(([0-9a-f]{8}\.)?(?:0|[1-9][0-9]{0,19}))-(0|[1-9][0-9]{0,19})$`)

// Resume continues the stream of an event, after that event. The reader must be closed. The errors are [ErrLost] if the event
// is unknown, or if later events are no longer kept, and [ErrElsewhere].
func (s *Session) Resume(eventID string) (*Reader, error) {
	parts := eventPattern.FindStringSubmatch(eventID)
	if parts == nil {
		return nil, ErrLost
	}
	seen, err := strconv.ParseUint(parts[3], 10, 64)
	switch {
	case err != nil:
		return nil, ErrLost
	case parts[2] != s.streamPrefix():
		return nil, ErrElsewhere
	}
	s.mu.Lock()
	st := s.streams[parts[1]]
	s.mu.Unlock()
	if st == nil {
		return nil, ErrLost
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if seen == 0 || seen >= st.nextNumber() || seen+1 < st.first {
		return nil, ErrLost
	}
	st.paused = false // the client has come back, as it was asked to
	return st.read(seen + 1), nil
}

// read makes the newest reader; st.mu is held.
func (st *Stream) read(from uint64) *Reader {
	r := &Reader{stream: st, next: from, news: make(chan struct{}, 1)}
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

// IsFor reports whether a caller who sees so much of results may read on: its stream belongs to no request, or began when its caller saw
// the same. Otherwise the stream is forgotten, because its messages were made for another view.
func (r *Reader) IsFor(key string) bool {
	if r.IsMain() {
		return true
	}
	st := r.stream
	st.mu.Lock()
	isSame := st.madeFor == key
	st.mu.Unlock()
	if !isSame {
		st.session.forgetStream(st)
	}
	return isSame
}

// BegunBy returns the span that [Stream.BegunBy] kept; not valid for none.
func (r *Reader) BegunBy() telemetry.Context {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.begunBy == nil {
		return telemetry.Context{}
	}
	return *st.begunBy
}

// Poll returns the next event without waiting; false if there is none yet. The errors are [errEnded], [errTaken], [ErrPaused]
// and [ErrLost].
func (r *Reader) Poll() (Event, bool, error) {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case r.taken:
		return Event{}, false, errTaken
	case r.next < st.first:
		return Event{}, false, ErrLost
	case r.next < st.nextNumber():
		e := Event{ID: st.id(r.next), Message: st.events[r.next-st.first]}
		r.next++
		r.holds = true
		st.unread = max(st.unread, r.next)
		return e, true, nil
	case st.ended:
		return Event{}, false, errEnded
	case st.paused:
		return Event{}, false, ErrPaused
	}
	return Event{}, false, nil
}

// Return returns the last event to the stream, because it did not reach its client: the next reader gets it first. It has no
// effect once another reader has taken over.
func (r *Reader) Return() {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.holds && !r.taken && st.unread == r.next {
		r.next--
		st.unread--
	}
	r.holds = false
}

// News returns a channel with a token when Poll may have something new.
func (r *Reader) News() <-chan struct{} { return r.news }

// Close releases the stream for the next reader.
func (r *Reader) Close() {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	if r.stream.reader == r {
		r.stream.reader = nil
	}
}
