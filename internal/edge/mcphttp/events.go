// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

const (
	// retryAfter is how long a client waits before it comes back to a stream that
	// was closed while nothing happened: it costs a connection, and the result may
	// be there any moment.
	retryAfter = 500 * time.Millisecond
	// maxKept is the largest buffer that an open stream keeps: streams of changes
	// are many, and their events small.
	maxKept = 1 << 10
)

// eventWriter writes server-sent events, each write within a bounded time.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	opts    *Options
	// resumes: the client knows events that only carry an id.
	resumes bool
	// alive fires when nothing was written for a while.
	alive *time.Timer
	buf   []byte
}

// newEventWriter writes the headers.
func newEventWriter(w http.ResponseWriter, o *Options, alive *time.Timer) *eventWriter {
	setEventHeaders(w.Header())
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w: w, control: http.NewResponseController(w), opts: o, alive: alive}
}

func setEventHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// close leaves what the server itself has to write at the end of the body a
// bounded time, too.
func (o *eventWriter) close() {
	o.alive.Stop()
	_ = o.control.SetWriteDeadline(time.Now().Add(o.opts.WriteTimeout))
}

// drain writes what there is to read. Its error is the end: the stream's, or the
// connection's.
func (o *eventWriter) drain(reader *session.Reader) error {
	for {
		event, ok, err := reader.Poll()
		switch {
		case errors.Is(err, session.ErrPaused):
			return errors.Join(err, o.retry(retryAfter))
		case err != nil || !ok:
			return err
		case len(event.Message) == 0 && !o.resumes:
			continue
		}
		if err := o.event(event); err != nil {
			reader.Return()
			return err
		}
	}
}

// event writes one event: the JSON stays on one line, whatever a reader takes for the end of
// one.
func (o *eventWriter) event(e session.Event) error {
	o.buf = o.buf[:0]
	if e.ID != "" {
		o.buf = append(append(append(o.buf, "id: "...), e.ID...), '\n')
	}
	if len(e.Message) > 0 {
		o.buf = append(o.buf, "event: message\n"...)
	}
	o.buf = append(append(append(o.buf, "data: "...), e.Message...), "\n\n"...)
	return o.write(jsontext.WithoutLineEnds(o.buf))
}

// retry says when to come back (WHATWG HTML, server-sent events).
func (o *eventWriter) retry(after time.Duration) error {
	text := strconv.AppendInt([]byte("retry: "), after.Milliseconds(), 10)
	return o.write(append(text, "\n\n"...))
}

// comment writes what clients skip. Without a text it keeps proxies from taking a quiet stream for a dead one.
func (o *eventWriter) comment(text string) error {
	if text != "" {
		text = " " + text
	}
	return o.write([]byte(":" + text + "\n\n"))
}

// write writes and flushes within the reader's time. There is no deadline while
// nothing is written: HTTP/2 would end a stream for it.
func (o *eventWriter) write(text []byte) error {
	o.alive.Reset(o.opts.KeepAlive)
	// A transport without deadlines does not block.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.opts.WriteTimeout))
	_, err := o.w.Write(text) //nolint:gosec // JSON and event framing, sent as text/event-stream with nosniff
	if err == nil {
		err = o.control.Flush()
	}
	_ = o.control.SetWriteDeadline(time.Time{})
	if cap(o.buf) > maxKept {
		o.buf = nil
	}
	return err
}

// errEnded is what a stream answers after its end.
var errEnded = errors.New("mcphttp: the stream has ended")

// stream is the reply to one request as server-sent events. It begins with the
// first notification, or after a while without one: until then the reply may still
// become plain JSON with its HTTP status. Writes are serialised.
type stream struct {
	w    http.ResponseWriter
	opts *Options
	// gone ends the request when its reader is.
	gone   context.CancelCauseFunc
	silent silent

	mu  sync.Mutex
	out *eventWriter // nil until it has begun
	err error
}

func newStream(w http.ResponseWriter, o *Options, gone context.CancelCauseFunc) *stream {
	s := &stream{w: w, opts: o, gone: gone}
	s.silent.of = s
	return s
}

// send writes one message as one event and flushes it.
func (s *stream) send(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.open()
	return s.written(s.out.event(session.Event{Message: message}))
}

// open begins the stream, if it has not begun; s.mu is held.
func (s *stream) open() {
	if s.out == nil {
		s.out = newEventWriter(s.w, s.opts, time.AfterFunc(s.opts.KeepAlive, s.comment))
	}
}

// comment keeps proxies from taking a quiet stream for a dead one.
func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.open()
		_ = s.written(s.out.comment(""))
	}
}

// begin begins the stream of a request that has been silent. One that has begun has a timer.
func (s *stream) begin() {
	s.mu.Lock()
	hasBegun := s.out != nil
	s.mu.Unlock()
	if !hasBegun {
		s.comment()
	}
}

// written takes the outcome of a write. A reader that does not take it in time is gone, and
// so is everything that was done for it.
func (s *stream) written(err error) error {
	if err != nil {
		s.err = err
		s.out.alive.Stop()
		s.gone(err)
	}
	return err
}

// writeReply writes the reply and closes the stream. Where nothing was streamed, plain
// JSON will do, and refusals keep their status.
func (s *stream) writeReply(reply *dialect.Reply, asEvent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		form{asEvent: asEvent}.write(s.w, *reply)
	} else {
		s.last(reply)
	}
	s.end()
}

// writeBatch is writeReply for the replies to a batch: one array, or an event for each.
func (s *stream) writeBatch(replies []*dialect.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		httpbody.WriteReplies(s.w, replies)
	} else {
		for _, reply := range replies {
			if !reply.IsUnasked {
				s.last(reply)
			}
		}
	}
	s.end()
}

// last writes a reply to a stream that has begun; s.mu is held.
func (s *stream) last(reply *dialect.Reply) {
	if s.err == nil && !reply.IsEmpty() {
		httpbody.Attribute(s.w, reply)
		_ = s.written(s.out.event(session.Event{Message: reply.Bytes()}))
	}
}

// end lets nothing be written any more; s.mu is held.
func (s *stream) end() {
	if s.out != nil {
		s.out.alive.Stop()
	}
	if s.err == nil {
		s.err = errEnded
	}
}

// writeEvent sends a reply as the only event of a stream. Errors with a status
// of their own stay JSON: a stream can only begin with 200.
func writeEvent(w http.ResponseWriter, reply dialect.Reply) {
	if reply.IsEmpty() || reply.Status != http.StatusOK {
		httpbody.Write(w, reply)
		return
	}
	h := w.Header()
	for name, values := range reply.Header {
		h[name] = append(h[name], values...)
	}
	setEventHeaders(h)
	w.WriteHeader(http.StatusOK)
	httpbody.Attribute(w, &reply)
	event := make([]byte, 0, reply.Len()+32)
	event = append(event, "event: message\ndata: "...)
	event = reply.AppendTo(event)
	event = append(event, "\n\n"...)
	_, _ = w.Write(jsontext.WithoutLineEnds(event)) //nolint:gosec // JSON and event framing, sent as text/event-stream with nosniff
}
