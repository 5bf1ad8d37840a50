// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

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
func (c *Conn) appendData(s *stream, p []byte, end bool) error {
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
func (c *Conn) awaitRoom(s *stream) error {
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
