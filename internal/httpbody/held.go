// SPDX-License-Identifier: Apache-2.0

package httpbody

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long the server goes on reading a body after it has
	// answered without it. A client that is still sending would otherwise meet a
	// reset connection before it reads the answer. net/http adds half a second
	// where more than 256 KiB are left, so the connection ends within a second.
	lingerTime = 400 * time.Millisecond
	// smallBody is the largest body that is looked for among what has arrived
	// already, to keep the connection.
	smallBody = 64 << 10
	// lastByteTime is how long the last byte of such a body may take. All of them have
	// most likely come in one segment.
	lastByteTime = 20 * time.Millisecond
)

// past is a deadline that fails every read that would have to wait.
var past = time.Unix(1, 0)

// held is an HTTP/1 request whose body has not been read to its end: the writer
// of its answer and its body in one. net/http reads up to 256 KiB of an unread
// body before it sends an answer, and again afterwards, both without a deadline.
// A client that announces a body and sends none would hold its connection for
// ever. So an answer that comes before the end of the body says
// "Connection: close", for which net/http sends it at once, and what follows has
// a deadline.
type held struct {
	http.ResponseWriter

	r     *http.Request
	body  io.ReadCloser
	late  func()
	dates *dates
	// told is set once late was called or must not be. done is set once the body
	// has been read to its end, over once the handler has returned.
	told, done, over atomic.Bool
	// stopped is set once the handler ended a read of its own.
	stopped atomic.Bool
	// reading is held while the body is read: another goroutine than the handler's
	// may do so.
	reading sync.Mutex
	decided bool
}

// hold serves an HTTP/1 request that has a body.
func (h *timely) hold(w http.ResponseWriter, r *http.Request) {
	b := &held{ResponseWriter: w, r: r, body: r.Body, late: h.late, dates: &h.dates}
	var until time.Time
	if !h.stream(r) {
		until = time.Now().Add(h.timeout)
	}
	if b.deadline(until) != nil {
		// A transport without deadlines has no slow peers either.
		h.next.ServeHTTP(w, r)
		return
	}
	r.Body = b
	defer b.release()
	h.next.ServeHTTP(b, r)
}

// release leaves the connection to net/http.
func (b *held) release() {
	b.r.Body = b.body // net/http looks at its type
	if b.done.Load() {
		return
	}
	b.decide(http.StatusOK)
	b.stopReading()
	if !b.done.Load() {
		_ = b.deadline(time.Now().Add(lingerTime))
	}
}

// stopReading ends a read of another goroutine and waits for it. net/http would
// end it as well, and lift the deadline of the connection afterwards: what it
// then reads of the body would wait for ever.
func (b *held) stopReading() {
	b.told.Store(true)
	b.over.Store(true)
	_ = b.deadline(past)
	b.reading.Lock()
	defer b.reading.Unlock()
}

// deadline is set by the writer itself or one that it wraps.
func (b *held) deadline(t time.Time) error {
	return http.NewResponseController(b.ResponseWriter).SetReadDeadline(t)
}

// SetReadDeadline implements the read deadline of [http.ResponseController]. It does
// nothing once the body has been read to its end: net/http goes on reading, to notice
// when the peer goes away, and takes a deadline there for that. It would end the context
// of the connection, and with it all further requests.
func (b *held) SetReadDeadline(t time.Time) error {
	if b.done.Load() {
		return nil
	}
	b.stopped.Store(true)
	return b.deadline(t)
}

// decide says before the first byte of the answer whether the connection goes on.
func (b *held) decide(status int) {
	if b.decided {
		return
	}
	b.decided = true
	if !b.stopped.Load() && (b.done.Load() || status >= http.StatusBadRequest && b.arrived()) {
		return
	}
	b.Header().Set("Connection", "close")
}

// arrived reads a small body that a refusal did not wait for, if all of it came
// together with the request's headers. A client that was refused keeps its
// connection then. Asking a client that waits for "100 Continue" would be wrong:
// reading invites it to send.
func (b *held) arrived() bool {
	if b.r.ContentLength < 0 || b.r.ContentLength > smallBody || b.r.Header.Get("Expect") != "" {
		return false
	}
	b.told.Store(true)
	if b.deadline(past) != nil {
		return false
	}
	if _, err := io.CopyN(io.Discard, b, b.r.ContentLength-1); err != nil {
		return false
	}
	// The deadline must not be over when the body ends; see SetReadDeadline.
	_ = b.deadline(time.Now().Add(lastByteTime))
	_, err := io.Copy(io.Discard, b)
	return err == nil && b.done.Load()
}

// Read implements [io.Reader]. At the end of the body, it clears the deadline.
// Otherwise the deadline would end a call that is still running, because the
// server keeps reading to detect when the peer disconnects.
func (b *held) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if !b.done.Swap(true) {
			_ = b.deadline(time.Time{})
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		if !b.told.Swap(true) && b.late != nil {
			b.late()
		}
	}
	return n, err
}

// Close implements [io.Closer] and does nothing. net/http closes the body when the
// handler has returned. A handler that closes it early would block on data that
// may never arrive.
func (b *held) Close() error { return nil }

// WriteHeader implements [http.ResponseWriter].
func (b *held) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		b.decide(status)
		b.dates.set(b.Header(), time.Now())
	}
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *held) Write(p []byte) (int, error) {
	b.decide(http.StatusOK)
	return b.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher], which streams need.
func (b *held) Flush() { _ = b.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (b *held) FlushError() error {
	b.decide(http.StatusOK)
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] find the server's own writer.
func (b *held) Unwrap() http.ResponseWriter { return b.ResponseWriter }
