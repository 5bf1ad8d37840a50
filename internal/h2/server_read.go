// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"net"
	"time"

	"golang.org/x/net/http2"
)

// maxBlockOverhead is what the frames of one header block may have beside its bytes: far
// more than a client of this world sends.
const maxBlockOverhead = 32 << 10

// readLoop takes frames until the connection ends, and returns why.
func (c *ServerConn) readLoop() error {
	most := maxFrame + 4*int(c.maxHeaderList()) + maxBlockOverhead
	for {
		if c.in.buffered() == 0 {
			if err := c.startPending(); err != nil {
				return err
			}
		}
		c.in.allow(most)
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.take(frame)
		}
		var wrong http2.StreamError
		if errors.As(err, &wrong) {
			err = c.refuse(wrong)
		}
		if err != nil {
			return err
		}
	}
}

// refuse ends a stream on which something is wrong.
func (c *ServerConn) refuse(wrong http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wrong.StreamID%2 == 1 {
		c.lastID = max(c.lastID, wrong.StreamID)
	}
	if s := c.streams[wrong.StreamID]; s != nil {
		c.end(s, wrong)
	}
	return c.owe(appendReset(nil, wrong.StreamID, wrong.Code))
}

// take acts on a frame.
func (c *ServerConn) take(frame http2.Frame) error {
	if !c.settled {
		if f, ok := frame.(*http2.SettingsFrame); !ok || f.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.settled = true
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.RSTStreamFrame:
		return c.reset(f)
	case *http2.GoAwayFrame:
		c.Shutdown() // the client opens no more streams
		return nil
	case *http2.PriorityFrame:
		return c.priority(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // what is not known (RFC 9113, section 4.1)
}

// priority ignores the priority of a stream, except for one that depends on itself (RFC 7540,
// section 5.3.1). A stream that was never opened cannot be reset.
func (c *ServerConn) priority(f *http2.PriorityFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.StreamDep != f.StreamID:
		return nil
	case c.isIdle(f.StreamID):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
}

// isIdle holds for streams that the client has not opened.
func (c *ServerConn) isIdle(id uint32) bool { return id%2 == 0 || id > c.lastID }

// data takes a piece of a body.
func (c *ServerConn) data(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, p := int64(f.Length), f.Data()
	if c.credit -= size; c.credit < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s := c.streams[f.StreamID]
	if s == nil || s.halfClosed {
		if c.isIdle(f.StreamID) {
			if c.ending { // it crossed GOAWAY
				c.giveBack(nil, size)
				return nil
			}
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.giveBack(nil, size)
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
	}
	s.credit -= size
	s.got += int64(len(p))
	switch {
	case s.credit < 0:
		c.giveBack(nil, size)
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	case s.declared >= 0 && s.got > s.declared:
		c.giveBack(nil, size)
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
	}
	switch {
	case s.over:
		c.giveBack(nil, size)
	case s.deaf:
		c.giveBack(s, size)
	default:
		c.giveBack(s, size-int64(len(p))) // the padding
		s.keep(p)
	}
	if f.StreamEnded() {
		return c.endBody(s)
	}
	s.reading.wake()
	return nil
}

// giveBack lets the peer send again what has been taken, on the connection and on a
// serverStream, which may be nil.
func (c *ServerConn) giveBack(s *serverStream, n int64) {
	if n <= 0 {
		return
	}
	if c.consumed += n; c.consumed >= serverConnWindow/4 {
		c.credit += c.consumed
		c.out = appendWindowUpdate(c.out, 0, uint32(c.consumed))
		c.consumed = 0
		c.startWriting()
	}
	if s == nil || s.halfClosed {
		return
	}
	if s.consumed += n; s.consumed >= serverStreamWindow/4 {
		s.credit += s.consumed
		c.out = appendWindowUpdate(c.out, s.id, uint32(s.consumed))
		s.consumed = 0
		c.startWriting()
	}
}

// reset takes the end of a stream that its client gave up.
func (c *ServerConn) reset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(f.StreamID) && !c.ending {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[f.StreamID]; s != nil {
		c.end(s, http2.StreamError{StreamID: s.id, Code: f.ErrCode})
		c.settle()
	}
	return nil
}

const (
	// firstInput is how much a connection reads at a time until that was not enough,
	// fullInput from then on.
	firstInput = 4 << 10
	fullInput  = 32 << 10
)

// errTooMuch tells that one frame, or a header block with all its frames, is larger than
// any that is taken.
var errTooMuch = errors.New("too many bytes in one header block")

// input reads from a connection, as much as there is at a time. It is for one goroutine.
type input struct {
	nc         net.Conn
	buf        []byte
	start, end int
	// left is how many bytes may still be taken until allow is called.
	left int
}

func newInput(nc net.Conn) *input { return &input{nc: nc, buf: make([]byte, firstInput)} }

// allow bounds what is read until it is called again.
func (in *input) allow(n int) { in.left = n }

// buffered is how many bytes were read from the connection and not taken.
func (in *input) buffered() int { return in.end - in.start }

// Read implements [io.Reader].
func (in *input) Read(p []byte) (int, error) {
	if in.left <= 0 {
		return 0, errTooMuch
	}
	if in.start == in.end {
		if len(p) >= len(in.buf) {
			n, err := in.nc.Read(p)
			in.left -= n
			return n, err
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.start:in.end])
	in.start += n
	in.left -= n
	return n, nil
}

// fill reads what there is. A connection on which much comes at a time gets more room.
func (in *input) fill() error {
	if in.end == len(in.buf) && len(in.buf) < fullInput {
		in.buf = make([]byte, fullInput)
	}
	n, err := in.nc.Read(in.buf)
	in.start, in.end = 0, n
	if n > 0 {
		return nil
	}
	return err
}
