// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	timeFormat = http.TimeFormat
	// bufferSize is how much of an answer is kept before anything of it is written, as in
	// net/http.
	bufferSize = 4 << 10
)

// response is a request's answer. It is for one goroutine at a time, but for the
// deadlines.
type response struct {
	s      *stream
	header http.Header
	// fields is the header as it was when it was decided, inline its first memory.
	fields  []hpack.HeaderField
	inline  [8]hpack.HeaderField
	status  int // 0 before the header is decided
	sent    bool
	isHead  bool
	written int64
	length  int64 // Content-Length, -1 for none
	hasType bool
	hasDate bool
	encoded bool // it has a Content-Encoding
	closes  bool // it said Connection: close
	trailer []string
	buf     []byte
}

func (w *response) begin(s *stream) {
	w.s, w.header, w.length, w.isHead = s, http.Header{}, -1, s.req.Method == http.MethodHead
	w.fields = w.inline[:0]
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) //nolint:forbidigo // as net/http: it is the handler's fault
	case w.status != 0:
		logf(w.s.conn.opts.Server, "http2: superfluous response.WriteHeader call")
		return
	case status < http.StatusOK:
		w.writeInterim(status)
		return
	}
	w.status = status
	for name, values := range w.header {
		w.keep(name, values)
	}
}

// keep notes a header of the answer.
func (w *response) keep(name string, values []string) {
	if strings.HasPrefix(name, http.TrailerPrefix) || len(values) == 0 {
		return
	}
	switch name {
	case "Connection":
		w.closes = values[0] == "close"
		return
	case "Content-Length":
		n, err := strconv.ParseUint(values[0], 10, 63)
		if err == nil {
			w.length = int64(n)
		}
		return
	case "Trailer":
		for _, line := range values {
			for one := range strings.SplitSeq(line, ",") {
				w.declareTrailer(textproto.TrimString(one))
			}
		}
	case "Content-Type":
		w.hasType = true
	case "Date":
		w.hasDate = true
	case "Content-Encoding":
		w.encoded = values[0] != ""
	}
	for _, value := range values {
		w.fields = append(w.fields, hpack.HeaderField{Name: name, Value: value})
	}
}

func (w *response) declareTrailer(name string) {
	name = http.CanonicalHeaderKey(name)
	if httpguts.ValidTrailerHeader(name) && !slices.Contains(w.trailer, name) {
		w.trailer = append(w.trailer, name)
	}
}

// writeInterim writes an answer before the answer.
func (w *response) writeInterim(status int) {
	var fields []hpack.HeaderField
	for name, values := range w.header {
		if name == "Content-Length" || name == "Transfer-Encoding" || name == "Connection" {
			continue
		}
		for _, value := range values {
			fields = append(fields, hpack.HeaderField{Name: name, Value: value})
		}
	}
	c := w.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.s.over {
		return
	}
	if status == http.StatusContinue {
		w.s.expects = false
	}
	c.appendInterim(w.s, status, fields)
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if len(w.buf)+len(p) <= bufferSize {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(p string) (int, error) { return w.Write([]byte(p)) }

// FlushError implements the flush of [http.ResponseController].
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.send(nil)
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() } // the next write tells

// SetReadDeadline implements the read deadline of [http.ResponseController].
func (w *response) SetReadDeadline(t time.Time) error {
	w.s.conn.mu.Lock()
	defer w.s.conn.mu.Unlock()
	w.s.reading.deadline = t
	w.s.reading.wake() // who waits looks at the new one
	return nil
}

// SetWriteDeadline implements the write deadline of [http.ResponseController]. As in
// net/http, a deadline that has passed ends the stream.
func (w *response) SetWriteDeadline(t time.Time) error {
	c := w.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	w.s.writing.deadline = t
	if w.s.writing.expired() {
		c.cutOff(w.s, os.ErrDeadlineExceeded, http2.ErrCodeInternal)
	}
	w.s.writing.wake()
	return nil
}

// EnableFullDuplex is for [http.ResponseController]. It does nothing, because HTTP/2 is
// always full duplex.
func (w *response) EnableFullDuplex() error { return nil }

// bodyAllowed holds for statuses whose answers may have a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
