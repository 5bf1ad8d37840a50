// SPDX-License-Identifier: Apache-2.0

package httpbody

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Timeout returns a handler that bounds how long the body of a request can hold
// its connection. Make it the outermost handler of a listener, so that it also
// covers requests that inner handlers refuse.
//
// A request has d to send its body. Then reading fails, and the inner handler
// responds as it does to a broken body. Requests for which stream returns true have
// no such limit, because their bodies last as long as the stream. late, which may
// be nil, is called once for each body that timed out. A server-wide write timeout
// would also cut streams, and end calls that only take long to answer.
//
// If a handler responds without having read the body, HTTP/1 usually closes the
// connection; see [held]. On HTTP/2 the server sends the response and, if the body has
// not ended 400 ms later, RST_STREAM(NO_ERROR). The connection continues to serve its
// other streams.
func Timeout(next http.Handler, d time.Duration, stream func(*http.Request) bool, late func()) http.Handler {
	return &timely{next: next, timeout: d, stream: stream, late: late}
}

// timely is a handler whose requests have a time for their bodies. Its frame is
// small, because a stream waits on top of it for hours.
type timely struct {
	next    http.Handler
	timeout time.Duration
	stream  func(*http.Request) bool
	late    func()
	dates   dates
}

// ServeHTTP implements [http.Handler].
func (h *timely) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		// net/http ignores Transfer-Encoding on HTTP/1.0 and would read the chunks
		// as the next request: RFC 9112, section 6.1, wants the connection closed.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		h.next.ServeHTTP(w, r)
	case r.ProtoMajor == 1:
		h.hold(w, r)
	default:
		h.limit(w, r)
		h.next.ServeHTTP(w, r)
	}
}

// limit sets the time for the body of an HTTP/2 request.
func (h *timely) limit(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if h.stream(r) {
		_ = control.SetReadDeadline(time.Time{}) // the server's own ReadTimeout
		return
	}
	// A transport without deadlines has no slow peers either.
	if err := control.SetReadDeadline(time.Now().Add(h.timeout)); err == nil {
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
