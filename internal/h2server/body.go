// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Bodies are kept in parts of a frame each: small ones have their own size, the others
// use the same memory again.
const smallPart = 2 << 10

// body is a request's body.
type body stream

// Read implements [io.Reader]. It returns the received data before it returns an error.
func (b *body) Read(p []byte) (int, error) {
	s := (*stream)(b)
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.over && s.err != nil:
			return 0, s.err
		case s.deaf:
			return 0, http.ErrBodyReadAfterClose
		case !s.halfClosed && s.reading.expired():
			return 0, os.ErrDeadlineExceeded
		case len(s.parts) > 0:
			return s.read(p), nil
		case s.halfClosed:
			s.addTrailers()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if s.expects {
			s.expects = false
			c.appendInterim(s, http.StatusContinue, nil)
		}
		if err := s.reading.wait(c); err != nil {
			return 0, err
		}
	}
}

// read takes what fits out of the first part.
func (s *stream) read(p []byte) int {
	part := s.parts[0]
	n := copy(p, part[s.offset:])
	if s.offset += n; s.offset == len(part) {
		recycle(part)
		s.parts, s.offset = s.parts[1:], 0
		if len(s.parts) == 0 {
			s.parts = nil
		}
	}
	s.conn.giveBack(s, int64(n))
	return n
}

// Close implements [io.Closer]. It discards unread data.
func (b *body) Close() error {
	s := (*stream)(b)
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.ignoreBody()
	return nil
}

// ignoreBody drops what has come, and what comes.
func (s *stream) ignoreBody() {
	if s.deaf {
		return
	}
	s.deaf = true
	unread := -int64(s.offset)
	for _, part := range s.parts {
		unread += int64(len(part))
		recycle(part)
	}
	s.parts, s.offset = nil, 0
	s.conn.giveBack(s, unread)
	s.reading.wake()
}

// keep copies a piece of the body.
func (s *stream) keep(p []byte) {
	if len(p) == 0 {
		return
	}
	var part []byte
	if len(p) <= smallPart {
		part = make([]byte, len(p))
	} else {
		part = chunk()[:len(p)]
	}
	copy(part, p)
	s.parts = append(s.parts, part)
}

// chunks has memory for frames, for all connections.
var chunks = sync.Pool{New: func() any { return new([maxFrame]byte) }} //nolint:gochecknoglobals // a pool

// chunk is memory for a frame.
func chunk() []byte { return chunks.Get().(*[maxFrame]byte)[:] } //nolint:forcetypeassert // of one type

// recycle keeps the memory of a part for another.
func recycle(part []byte) {
	if cap(part) == maxFrame {
		chunks.Put((*[maxFrame]byte)(part[:maxFrame]))
	}
}

// endBody notes that all of the body has come. A body that is shorter than its Content-Length
// is malformed (RFC 9113, section 8.1.1).
func (c *Conn) endBody(s *stream) error {
	if s.declared >= 0 && s.got != s.declared {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	s.halfClosed = true
	if s.over { // it was answered before
		c.end(s, nil)
		c.settle()
		return nil
	}
	s.reading.wake()
	return c.start(s)
}

// addTrailers gives the request its trailers, when its body has been read.
func (s *stream) addTrailers() {
	for _, f := range s.lateTrailer {
		s.req.Trailer[f.Name] = append(s.req.Trailer[f.Name], f.Value)
	}
	s.lateTrailer = nil
}

// answered ends a stream whose response has been written. If the body has not ended, the client
// may take lingerTime to read the response and to end the body. Then RST_STREAM(NO_ERROR) asks it
// to stop (RFC 9113, section 8.1). With the reset in the same write as the response, many clients
// report the reset and lose the response.
//
// What arrives meanwhile is discarded. It counts against the stream's window, which is not
// extended: that bounds it.
func (c *Conn) answered(s *stream) {
	if s.halfClosed {
		c.end(s, nil)
		return
	}
	c.release(s, nil)
	s.linger = time.AfterFunc(lingerTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.streams[s.id] == s {
			c.end(s, nil)
			c.out = appendReset(c.out, s.id, http2.ErrCodeNo)
			c.startWriting()
		}
	})
}
