// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// startWriting wakes the writer. The lock is held.
func (c *ServerConn) startWriting() {
	if c.writing || c.failed {
		return
	}
	c.writing = true
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what there is, as much as there is, until the connection fails.
func (c *ServerConn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		runtime.Gosched() // other answers share the write
		for c.writeOnce() {
		}
	}
}

// writeOnce writes one batch and reports whether there may be more.
func (c *ServerConn) writeOnce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 || c.failed {
		c.writing = false
		c.settle()
		return false
	}
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	c.owed = 0
	c.resume()
	c.mu.Unlock()
	_, err := c.nc.Write(batch)
	c.mu.Lock()
	if cap(batch) <= 2*highWater {
		c.spare = batch[:0]
	}
	if err != nil {
		c.fail()
	}
	return true
}

// appendBlock appends a header block that was encoded, in as many frames as it takes.
func (c *ServerConn) appendBlock(s *serverStream, end bool) {
	kind, block := http2.FrameHeaders, c.block.Bytes()
	for {
		piece := block[:min(len(block), c.peer.frameSize)]
		block = block[len(piece):]
		var flags http2.Flags
		if len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		if end && kind == http2.FrameHeaders {
			flags |= http2.FlagHeadersEndStream
		}
		c.out = appendFrameHeader(c.out, len(piece), kind, flags, s.id)
		c.out = append(c.out, piece...)
		if len(block) == 0 {
			break
		}
		kind = http2.FrameContinuation
	}
	c.block.Reset()
	c.startWriting()
}

// appendInterim appends an answer before the answer.
func (c *ServerConn) appendInterim(s *serverStream, status int, fields []hpack.HeaderField) {
	c.field(":status", strconv.Itoa(status))
	c.fields(fields)
	c.appendBlock(s, false)
}

// field encodes one field.
func (c *ServerConn) field(name, value string) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // to a buffer, which does not fail
}

// rare encodes a field whose value is seldom the same twice, so that it would only push
// out of the table what is.
func (c *ServerConn) rare(name, value string) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true})
}

// fields encodes fields of a header. What HTTP does not admit is left out.
func (c *ServerConn) fields(fields []hpack.HeaderField) {
	for _, f := range fields {
		name, ok := c.wireName(f.Name)
		if !ok || !httpguts.ValidHeaderFieldValue(f.Value) || name == "transfer-encoding" && f.Value != "trailers" {
			continue
		}
		if strings.HasPrefix(name, "grpc-status-details") || name == "content-length" {
			c.rare(name, f.Value)
			continue
		}
		c.field(name, f.Value)
	}
}

// wireName is the name of a header as HTTP/2 sends it; false for one that is none.
func (c *ServerConn) wireName(name string) (string, bool) {
	if wire, ok := c.names[name]; ok {
		return wire, wire != ""
	}
	wire := strings.ToLower(name)
	if !httpguts.ValidHeaderFieldName(wire) {
		wire = ""
	}
	if len(name) <= maxNameSize && len(c.names) < maxNames {
		c.names[name] = wire
	}
	return wire, wire != ""
}

// dateCache is the value of a Date header, which changes once a second.
type dateCache struct {
	second int64
	text   string
}

func (d *dateCache) now() string {
	now := time.Now()
	if d.text == "" || now.Unix() != d.second {
		d.second, d.text = now.Unix(), now.UTC().Format(timeFormat)
	}
	return d.text
}

// send writes what is kept of the answer, and p behind it. It waits for windows and for
// room, and returns when all has been given to the connection's writer.
func (w *response) send(p []byte) error {
	c := w.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := w.dead(); err != nil {
		return err
	}
	if !w.sent {
		w.appendHeader(p, false, false)
	}
	if w.isHead {
		w.buf = w.buf[:0]
		return nil
	}
	kept := w.buf
	w.buf = w.buf[:0]
	if err := c.appendData(w.s, kept, false); err != nil {
		return err
	}
	return c.appendData(w.s, p, false)
}

// dead is why nothing can be written any more.
func (w *response) dead() error {
	switch {
	case w.s.over && w.s.err != nil:
		return w.s.err
	case w.s.over || w.s.ended:
		return http.ErrHandlerTimeout
	}
	return nil
}

// finish ends the answer: its handler has returned.
func (w *response) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	c := w.s.conn
	late := w.lateTrailers()
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.s.over {
		return
	}
	w.s.handled = true
	if err := w.appendRest(late); err != nil {
		c.cutOff(w.s, err, http2.ErrCodeInternal)
		return
	}
	c.answered(w.s)
	c.startWriting()
	if w.closes {
		go c.Shutdown() // as in net/http: when the streams have ended
	}
}

// appendRest appends what is left of an answer, with its end.
func (w *response) appendRest(late []hpack.HeaderField) error {
	c := w.s.conn
	for len(c.out) >= highWater {
		if err := c.awaitRoom(w.s); err != nil {
			return err
		}
	}
	hasBody := !w.isHead && len(w.buf) > 0
	if !w.sent {
		if w.appendHeader(nil, !hasBody && len(late) == 0, len(late) > 0); w.s.ended {
			return nil
		}
	}
	if hasBody || len(late) == 0 {
		if w.isHead {
			w.buf = nil
		}
		if err := c.appendData(w.s, w.buf, len(late) == 0); err != nil {
			return err
		}
	}
	if len(late) > 0 {
		c.fields(late)
		c.appendBlock(w.s, true)
		w.s.ended = true
	}
	return nil
}

// appendHeader appends the head of the answer; next is written behind what is kept. It has
// no length yet where more follows.
func (w *response) appendHeader(next []byte, end, trailed bool) {
	c, done := w.s.conn, w.s.handled
	w.sent = true
	w.s.expects = false
	c.field(":status", strconv.Itoa(w.status))
	c.fields(w.fields)
	if len(w.buf) > 0 {
		next = w.buf
	}
	if !w.hasType && !w.encoded && bodyAllowed(w.status) && len(next) > 0 {
		c.field("content-type", http.DetectContentType(next))
	}
	switch {
	case w.length >= 0:
		c.rare("content-length", strconv.FormatInt(w.length, 10))
	case done && !trailed && bodyAllowed(w.status) && (len(w.buf) > 0 || !w.isHead):
		c.rare("content-length", strconv.Itoa(len(w.buf)))
	}
	if !w.hasDate {
		c.field("date", c.date.now())
	}
	c.appendBlock(w.s, end || w.isHead)
	w.s.ended = end || w.isHead
}

// appendData appends a piece of a body, as the windows and the high-water mark admit.
func (c *ServerConn) appendData(s *serverStream, p []byte, end bool) error {
	for len(p) > 0 || end {
		room := min(int64(len(p)), s.window, c.window, int64(c.peer.frameSize))
		if len(p) > 0 && (room <= 0 || len(c.out) >= highWater) {
			if err := c.awaitRoom(s); err != nil {
				return err
			}
			continue
		}
		piece := p[:max(room, 0)]
		p = p[len(piece):]
		var flags http2.Flags
		if end && len(p) == 0 {
			flags, s.ended = http2.FlagDataEndStream, true
		}
		c.out = appendFrameHeader(c.out, len(piece), http2.FrameData, flags, s.id)
		c.out = append(c.out, piece...)
		s.window -= int64(len(piece))
		c.window -= int64(len(piece))
		c.startWriting()
		if s.ended {
			break
		}
	}
	return nil
}

// awaitRoom waits until there may be room to write.
func (c *ServerConn) awaitRoom(s *serverStream) error {
	c.blocked[s] = struct{}{}
	err := s.writing.wait(c)
	delete(c.blocked, s)
	switch {
	case s.over && s.err != nil:
		return s.err
	case err != nil:
		c.cutOff(s, err, http2.ErrCodeInternal)
		return err
	}
	return nil
}

// lateTrailers are the fields behind the body.
func (w *response) lateTrailers() []hpack.HeaderField {
	var out []hpack.HeaderField
	for name := range w.header {
		if late, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.declareTrailer(late)
			w.header[http.CanonicalHeaderKey(late)] = w.header[name]
		}
	}
	if len(w.trailer) > 1 {
		slices.Sort(w.trailer)
	}
	for _, name := range w.trailer {
		for _, value := range w.header[name] {
			out = append(out, hpack.HeaderField{Name: name, Value: value})
		}
	}
	return out
}

const (
	timeFormat = http.TimeFormat
	// bufferSize is how much of an answer is kept before anything of it is written, as in
	// net/http.
	bufferSize = 4 << 10
)

// response is a request's answer. It is for one goroutine at a time, but for the
// deadlines.
type response struct {
	s      *serverStream
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

func (w *response) begin(s *serverStream) {
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
