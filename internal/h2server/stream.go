// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// errGone is why a stream ended whose connection did.
var errGone = errors.New("client disconnected")

// stream is one request and its answer. The connection's lock guards it, except what is
// said to belong to the handler.
type stream struct {
	conn *Conn
	id   uint32
	// over: nothing is read or written for it any more. It stays in Conn.streams while it lingers.
	over bool
	err  error // why it ended badly
	// started: a handler has it, or will when there is room.
	started bool
	// refusal answers it instead of the handler.
	refusal http.HandlerFunc

	// The body.
	halfClosed    bool  // all of it has come
	declared, got int64 // Content-Length, -1 for none, and what has come
	credit        int64 // what the peer may send
	consumed      int64 // what was taken in and not told the peer
	expects       bool  // 100 Continue
	deaf          bool  // nobody reads it any more
	parts         [][]byte
	offset        int // of what was read of the first part
	lateTrailer   []hpack.HeaderField
	reading       gate
	// linger ends a stream that was answered before its body ended; nil for others.
	linger *time.Timer

	// The answer.
	window  int64 // what may be sent
	writing gate
	ended   bool // END_STREAM is written
	handled bool // the handler has returned

	// The handler's.
	req    *http.Request
	url    url.URL
	cancel context.CancelFunc // of the request's context
	res    response
}

// end takes a stream out of the connection, with an error where it ended badly.
func (c *Conn) end(s *stream, err error) {
	delete(c.streams, s.id)
	if s.linger != nil {
		s.linger.Stop()
	}
	c.release(s, err)
}

// release lets go of what waits for a stream, and of what it holds. Only the first call has an
// effect.
func (c *Conn) release(s *stream, err error) {
	if s.over {
		return
	}
	s.over, s.err = true, err
	unread := -int64(s.offset)
	for _, part := range s.parts {
		unread += int64(len(part))
		recycle(part)
	}
	s.parts, s.offset, s.deaf = nil, 0, true
	s.reading.wake()
	s.writing.wake()
	if err != nil {
		s.cancel()
	}
	if !c.failed {
		c.giveBack(nil, unread)
	}
}

// cutOff ends a stream and tells the peer.
func (c *Conn) cutOff(s *stream, err error, code http2.ErrCode) {
	if s.over {
		return
	}
	c.end(s, err)
	c.out = appendReset(c.out, s.id, code)
	c.startWriting()
}

// gate is where a goroutine waits for the peer. The connection's lock guards it.
type gate struct {
	ch       chan struct{} // closed by wake; nil while nobody waits
	deadline time.Time
}

// wake lets go on whoever waits.
func (g *gate) wake() {
	if g.ch != nil {
		close(g.ch)
		g.ch = nil
	}
}

// expired reports whether the deadline has passed.
func (g *gate) expired() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// wait waits until wake is called, or for the deadline. It gives up the lock meanwhile.
func (g *gate) wait(c *Conn) error {
	if g.expired() {
		return os.ErrDeadlineExceeded
	}
	if g.ch == nil {
		g.ch = make(chan struct{})
	}
	ch := g.ch
	var timeout <-chan time.Time
	if !g.deadline.IsZero() {
		timer := time.NewTimer(time.Until(g.deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-ch:
	case <-timeout:
	}
	return nil // who waits looks again, at the deadline too
}
