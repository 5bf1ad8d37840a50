// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"context"
	"net/http"
	"time"
)

// Request is one call. Nothing of it is kept after [Conn.Do] has returned.
type Request struct {
	Scheme, Authority, Path string
	UserAgent               string
	// Timeout is what the peer is told; zero tells nothing.
	Timeout time.Duration
	// AcceptGzip says that the answer may be compressed.
	AcceptGzip bool
	// Metadata has valid names and values, none of them the protocol's own.
	Metadata http.Header
	// Message is sent as it is, in one frame of gRPC.
	Message []byte
	// MaxAnswer bounds the message of the answer, compressed or not.
	MaxAnswer int
	// Again reserves another run of a call that does no harm if it runs twice, so that
	// it need not wait for a connection that is probably dead. Nil never does. It must
	// not block.
	Again interface{ Claim() bool }
}

// Answer is what came back. One that is none of gRPC (by its HTTP status or its
// content type) is not read beyond its headers. Beside an error of [Conn.Do] it holds what had
// arrived: the HTTP status at most.
type Answer struct {
	// HTTPStatus is zero where no headers came.
	HTTPStatus            int
	ContentType, Encoding string
	// Messages counts the messages. Only the first is kept, with its flag byte.
	Messages int
	Flags    byte
	Message  []byte
	// Cut tells that the answer ended within a message.
	Cut bool
	// Status, StatusMessage and StatusDetails are grpc-status, grpc-message and
	// grpc-status-details-bin as they came; HasStatus tells that there was one.
	HasStatus                            bool
	Status, StatusMessage, StatusDetails string
	// Header and Trailer are the metadata, in canonical form; nil where there is
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

// Do makes one call and waits for its end. The error is a *Failure. Where it is
// nil, into holds a complete answer of HTTP, of which gRPC may still think
// nothing. The message belongs to the caller.
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
