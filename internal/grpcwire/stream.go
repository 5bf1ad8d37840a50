// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"context"
	"net/http"
	"time"
)

// Request is one call. [Conn.Do] keeps nothing of it after it has returned.
type Request struct {
	Scheme, Authority, Path string
	UserAgent               string
	// Timeout is the timeout that is sent to the peer. Zero sends none.
	Timeout time.Duration
	// AcceptGzip allows a compressed response.
	AcceptGzip bool
	// Metadata has valid names and values, and none of the protocol's own.
	Metadata http.Header
	// TraceParent is the value of traceparent (W3C Trace Context), 55 bytes of visible ASCII; "" for none. It is metadata, but nearly every
	// call of a traced sidecar has it, and no other: it needs no map.
	TraceParent string
	// Message is sent unchanged, in one gRPC frame.
	Message []byte
	// MaxAnswer bounds the message of the response, compressed or not.
	MaxAnswer int
	// Again reserves a retry of a call that is safe to run twice, so that it need not
	// wait for a connection that is probably dead. Nil means no retry. It must not block.
	Again interface{ Claim() bool }
}

// Answer is the response. If it is not a gRPC response (by HTTP status or content type),
// only its headers are read. With an error of [Conn.Do] it holds what had arrived: at
// most the HTTP status.
type Answer struct {
	// HTTPStatus is zero if no headers came.
	HTTPStatus            int
	ContentType, Encoding string
	// Messages is the number of messages. Only the first is kept, with its flag byte.
	Messages int
	Flags    byte
	Message  []byte
	// Cut means that the response ended within a message.
	Cut bool
	// Status, StatusMessage and StatusDetails are the received values of grpc-status,
	// grpc-message and grpc-status-details-bin. HasStatus means that there was a
	// grpc-status, and HasTrailingStatus that it came behind the messages.
	HasStatus, HasTrailingStatus         bool
	Status, StatusMessage, StatusDetails string
	// Header and Trailer are the metadata in canonical form. They are nil if there is
	// none.
	Header, Trailer http.Header
}

// stream is one call in flight. The connection's lock guards it, except answer
// and reading, which belong to the reader until the stream has ended.
type stream struct {
	id   uint32
	req  *Request
	done chan struct{} // gets one value when the stream has ended
	over bool
	err  error // why it ended badly

	next, previous *stream // in the list of those that have something to send
	listed         bool
	from, to       int64 // where the request begins and ends among the connection's bytes
	begun          bool  // from is known
	ended          bool  // to is known: all is in the connection's buffer
	offset         int   // how much of prefix and message is
	window         int64 // what may be sent
	made           time.Time

	answer     Answer
	hasHeaders bool
	status     int // of HTTP; a copy for callers that give up
	reading    messageReader
	credit     int64 // what the peer may still send
	consumed   int64 // what was taken in and not told the peer
}

// Do makes one call and waits for it to end. The error is a *Failure. If the error is
// nil, into holds a complete HTTP response, which may still be invalid for gRPC. The
// caller owns the message.
func (c *Conn) Do(ctx context.Context, req *Request, into *Answer) error {
	*into = Answer{}
	s := &stream{req: req, done: make(chan struct{}, 1), credit: streamWindow}
	s.reading.limit = req.MaxAnswer
	if err := c.begin(s); err != nil {
		return &Failure{Cause: err}
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		if f := c.abandon(s, context.Cause(ctx), into); f != nil {
			return f
		}
	}
	if s.err != nil {
		return c.failure(s, into)
	}
	*into = s.answer // the reader is done with it
	return nil
}

// begin puts a stream among those that are to be sent.
func (c *Conn) begin(s *stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if size := s.req.headerListSize(); size > c.peer.headerList {
		return ErrRequestHeader
	}
	if c.nextID > maxStreamID {
		c.retire(ErrStreamIDs)
		return ErrStreamIDs
	}
	s.id = c.nextID
	c.nextID += 2
	s.window = c.peer.window
	s.made = time.Now()
	c.lastUsed = s.made
	c.streams[s.id] = s
	c.owes(s.made)
	c.recount()
	c.waiting.add(s)
	c.startWriting()
	return nil
}

// abandon gives up a stream; nil where it has ended in the meantime.
func (c *Conn) abandon(s *stream, cause error, into *Answer) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over {
		return nil
	}
	into.HTTPStatus = s.status
	f := c.measured(s, cause)
	c.gaveUp(s)
	c.cut(s, cause, codeCancel)
	return f
}

// remove takes a stream out of the connection.
func (c *Conn) remove(s *stream) {
	s.over = true
	c.waiting.remove(s)
	delete(c.streams, s.id)
	c.lastUsed = time.Now()
	c.owes(c.lastUsed)
	c.recount()
	if c.err != nil && len(c.streams) == 0 {
		c.fail(c.err) // it was only kept for the calls on it
	}
}

// end ends a stream for its caller, with an error where it ended badly. Only the
// reader may end one well.
func (c *Conn) end(s *stream, err error) {
	if s.over {
		return
	}
	s.err = err
	c.remove(s)
	s.done <- struct{}{}
}

// cut ends a stream and tells the peer, because of an error or because what is
// left of the call is of no use.
func (c *Conn) cut(s *stream, err error, code uint32) {
	if s.over {
		return
	}
	if s.begun {
		c.out = appendReset(c.out, s.id, code)
		c.startWriting()
	}
	c.end(s, err)
}

// failure is the Failure of a stream that has ended. It takes the lock.
func (c *Conn) failure(s *stream, into *Answer) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	into.HTTPStatus = s.status
	return c.measured(s, s.err)
}

// measured says how much of the request left.
func (c *Conn) measured(s *stream, cause error) *Failure {
	taken := c.handed // bytes within a write may have left
	if c.writeBegan.IsZero() {
		taken = c.sent
	}
	return &Failure{Cause: cause, Began: s.begun && s.from < taken, Complete: s.ended && s.to <= taken}
}

// streamList is a queue that streams can be taken out of.
type streamList struct{ first, last *stream }

func (l *streamList) add(s *stream) {
	if s.listed {
		return
	}
	s.listed = true
	s.previous, s.next = l.last, nil
	if l.last != nil {
		l.last.next = s
	} else {
		l.first = s
	}
	l.last = s
}

func (l *streamList) remove(s *stream) {
	if !s.listed {
		return
	}
	s.listed = false
	if s.previous != nil {
		s.previous.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.previous = s.previous
	} else {
		l.last = s.previous
	}
	s.next, s.previous = nil, nil
}
