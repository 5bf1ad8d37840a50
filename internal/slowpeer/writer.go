// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"net/http"
	"sync"
	"time"
)

// LeastCounted is the size up to which a response is not counted: net/http keeps as much of
// it before it writes anything.
const LeastCounted = 2 << 10

const (
	// piece is what is written at a time: progress is seen once for each. It is one
	// frame of HTTP/2 by default (RFC 9113, section 4.2).
	piece = 16 << 10
)

// Handler wraps next so that the Budget counts and bounds its responses. A caller is
// identified by the result of address until [Writer.SetCaller] sets its name.
func (b *Budget) Handler(next http.Handler, address func(remote string) string) http.Handler {
	if b == nil {
		return next
	}
	return &handler{budget: b, next: next, address: address}
}

// handler has a small frame, because a stream waits on top of it for hours.
type handler struct {
	budget  *Budget
	next    http.Handler
	address func(remote string) string
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := &Writer{ResponseWriter: w, handler: h, remote: r.RemoteAddr, isHTTP2: r.ProtoMajor >= 2}
	h.next.ServeHTTP(own, r)
	own.leave()
}

// Writer is a response writer that bounds the time without progress: each write has the
// whole timeout. Only one goroutine may write at a time.
type Writer struct {
	http.ResponseWriter

	handler *handler
	remote  string
	caller  string
	tool    string
	naming  sync.Once // the replies of an exchange ask at once
	isHTTP2 bool
	// kept is what net/http has of the answer and may not have written.
	kept int
	// isLong is set where the next write may wait, however small it is: the buffer of HTTP/2 is larger than what is not counted, so
	// that a long answer in small pieces fills it at any of them.
	isLong bool

	// mu: the response may be touched until the handler has left, and no longer.
	mu   sync.Mutex
	left bool
}

// Of returns the Writer below w, or nil if there is none.
func Of(w http.ResponseWriter) *Writer {
	for {
		switch at := w.(type) {
		case *Writer:
			return at
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return nil
		}
	}
}

// SetCaller sets the caller of the response. Call it before anything of the response is
// written or held.
func (w *Writer) SetCaller(name string) {
	if w != nil {
		w.caller = name
	}
}

// SetTool sets the tool whose result the response has. Call it before the result is
// written, from the goroutine that writes it.
func (w *Writer) SetTool(name string) {
	if w != nil {
		w.tool = name
	}
}

// Hold is [Budget.Hold] for the caller of this answer.
func (w *Writer) Hold(tool string, bytes int) (release func()) {
	if w == nil {
		return func() {}
	}
	return w.handler.budget.Hold(w.name(), tool, bytes)
}

func (w *Writer) name() string {
	w.naming.Do(func() {
		if w.caller == "" {
			w.caller = w.handler.address(w.remote)
		}
	})
	return w.caller
}

// Write implements [http.ResponseWriter].
func (w *Writer) Write(p []byte) (int, error) {
	if w.kept += len(p); w.kept <= LeastCounted && !w.isLong {
		return w.ResponseWriter.Write(p)
	}
	w.kept, w.isLong = 0, w.isHTTP2
	b := w.handler.budget
	one := &wait{caller: w.name(), tool: w.tool, bytes: int64(len(p)), timed: w.isHTTP2, end: w.end}
	b.begin(one)
	defer b.finish(one)
	written := 0
	for {
		n, err := w.ResponseWriter.Write(p[written:min(len(p), written+piece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		b.move(one)
	}
}

// FlushError implements the flush of [http.ResponseController].
func (w *Writer) FlushError() error {
	control := http.NewResponseController(w.ResponseWriter)
	if !w.isHTTP2 {
		w.kept = 0
		return control.Flush() // its connection has the timeout
	}
	b := w.handler.budget
	one := &wait{caller: w.name(), tool: w.tool, bytes: int64(w.kept), timed: true, end: w.end}
	w.kept, w.isLong = 0, false
	b.begin(one)
	defer b.finish(one)
	return control.Flush()
}

// Flush implements [http.Flusher].
func (w *Writer) Flush() { _ = w.FlushError() }

// SetWriteDeadline implements the write deadline of [http.ResponseController]. A
// deadline that has passed ends the current write. The Writer ignores a later one,
// because it already bounds the time without progress, which is the purpose of such
// deadlines.
func (w *Writer) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !time.Now().Before(t) {
		w.end()
	}
	return nil
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end breaks off what is being written.
func (w *Writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left {
		// A transport without deadlines does not block.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}

// leave ends the use of the response. On HTTP/2 net/http writes what is left of it
// afterwards, for which the peer has to leave room.
func (w *Writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	if w.isHTTP2 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.handler.budget.opts.Timeout))
	}
}
