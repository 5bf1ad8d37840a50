// SPDX-License-Identifier: Apache-2.0

package httpbody

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Timeout returns a handler that gives every request d to send its body. Then
// reading fails, and the handler behind answers as it does for a broken body.
// Requests for which stream holds are left alone: their bodies last as long as
// they do. late, which may be nil, is told of each that did not make it. It is no server-wide read timeout, because that would also cut the
// streams, and would end calls that only take long to answer.
func Timeout(next http.Handler, d time.Duration, stream func(*http.Request) bool, late func()) http.Handler {
	return &timely{next: next, patience: d, stream: stream, late: late}
}

// timely is a handler whose requests have a time for their bodies. Its frame is
// small, because a stream waits on top of it for hours.
type timely struct {
	next     http.Handler
	patience time.Duration
	stream   func(*http.Request) bool
	late     func()
}

// ServeHTTP implements [http.Handler].
func (h *timely) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.limit(w, r)
	h.next.ServeHTTP(w, r)
}

// limit sets the time for the body of a request.
func (h *timely) limit(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || h.stream(r) {
		return
	}
	control := http.NewResponseController(w)
	// A transport without deadlines has no slow peers either.
	if err := control.SetReadDeadline(time.Now().Add(h.patience)); err == nil {
		r.Body = &deadlineBody{ReadCloser: r.Body, control: control, late: h.late}
	}
}

// deadlineBody lifts the deadline once the body has been read to its end. Left
// in place it would end a call that is still running, because the server keeps
// reading to notice when the peer goes away. After any other error it stays: the
// server then reads what is left of the body, and must not wait for it.
type deadlineBody struct {
	io.ReadCloser
	control *http.ResponseController
	lifted  bool
	late    func() // nil once it was told
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.lifted {
		b.lifted = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if err != nil && b.late != nil && !b.lifted && errors.Is(err, os.ErrDeadlineExceeded) {
		b.late()
		b.late = nil
	}
	return n, err
}
