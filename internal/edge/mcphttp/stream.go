// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// errEnded is what a stream answers after its end.
var errEnded = errors.New("mcphttp: the stream has ended")

// stream is the reply to one request as server-sent events. It begins with the
// first notification: until then the reply may still become plain JSON with a
// status of its own. Writes are serialised, each within a bounded time.
type stream struct {
	w            http.ResponseWriter
	control      *http.ResponseController // nil until it has begun
	keepAlive    time.Duration
	writeTimeout time.Duration
	// gone ends the request when its reader is.
	gone context.CancelCauseFunc

	mu    sync.Mutex
	begun bool
	err   error
	buf   []byte
	timer *time.Timer
}

func newStream(w http.ResponseWriter, o Options, gone context.CancelCauseFunc) *stream {
	return &stream{w: w, keepAlive: o.KeepAlive, writeTimeout: o.WriteTimeout, gone: gone}
}

// send writes one message as one event and flushes it.
func (s *stream) send(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.begin()
	return s.event(message)
}

// begin writes the headers, once.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.control = http.NewResponseController(s.w)
	setEventHeaders(s.w.Header())
	s.w.WriteHeader(http.StatusOK)
	s.timer = time.AfterFunc(s.keepAlive, s.comment)
}

func setEventHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// event writes one event: the JSON stays on one line, whatever a reader takes for the end of
// one.
func (s *stream) event(message []byte) error {
	s.buf = append(s.buf[:0], "event: message\ndata: "...)
	s.buf = append(s.buf, message...)
	s.buf = append(s.buf, "\n\n"...)
	return s.write(jsontext.WithoutLineEnds(s.buf))
}

// comment keeps proxies from taking a quiet stream for a dead one.
func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_ = s.write([]byte(":\n\n"))
	}
}

// write writes and flushes within the reader's time. A reader that does not take
// it is gone, and so is everything that was done for it.
func (s *stream) write(text []byte) error {
	s.timer.Reset(s.keepAlive)
	// A transport without deadlines does not block.
	_ = s.control.SetWriteDeadline(time.Now().Add(s.writeTimeout))
	_, err := s.w.Write(text) //nolint:gosec // JSON and event framing, sent as text/event-stream with nosniff
	if err == nil {
		err = s.control.Flush()
	}
	// The deadline was for this write. Over HTTP/2 one that is left behind ends
	// the stream when it passes, although nothing is being written (net/http).
	_ = s.control.SetWriteDeadline(time.Time{})
	if cap(s.buf) > maxKept {
		s.buf = nil
	}
	if err != nil {
		s.err = err
		s.timer.Stop()
		s.gone(err)
	}
	return err
}

// maxKept is the largest buffer that an open stream keeps: streams of changes
// are many, and their events small.
const maxKept = 1 << 10

// end writes the reply and closes the stream. Where nothing was streamed, plain
// JSON will do, and refusals keep their status.
func (s *stream) end(reply *dialect.Reply, asEvent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		defer s.timer.Stop()
	}
	if !s.begun {
		form{asEvent: asEvent}.write(s.w, *reply)
	} else if s.err == nil && !reply.IsEmpty() {
		httpbody.Attribute(s.w, reply)
		_ = s.event(reply.Bytes())
	}
	if s.err == nil {
		s.err = errEnded
	}
}
