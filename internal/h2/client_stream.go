// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// Request is one call. [ClientConn.Do] keeps nothing of it after it has returned.
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
// only its headers are read. With an error of [ClientConn.Do] it holds what had arrived: at
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

// clientStream is one call in flight. The connection's lock guards it, except answer
// and reading, which belong to the reader until the stream has ended.
type clientStream struct {
	id   uint32
	req  *Request
	done chan struct{} // gets one value when the stream has ended
	over bool
	err  error // why it ended badly

	next, previous *clientStream // in the list of those that have something to send
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
func (c *ClientConn) Do(ctx context.Context, req *Request, into *Answer) error {
	*into = Answer{}
	s := &clientStream{req: req, done: make(chan struct{}, 1), credit: clientStreamWindow}
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
func (c *ClientConn) begin(s *clientStream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if size := s.req.headerListSize(); size > c.peer.headerList {
		return ErrRequestHeader
	}
	if c.nextID > maxStreamID {
		c.retire(errStreamIDs)
		return errStreamIDs
	}
	s.id = c.nextID
	c.nextID += 2
	s.window = c.peer.window
	s.made = time.Now()
	c.streams[s.id] = s
	c.owes(s.made)
	c.recount()
	c.waiting.add(s)
	c.startWriting()
	return nil
}

// abandon gives up a stream; nil where it has ended in the meantime.
func (c *ClientConn) abandon(s *clientStream, cause error, into *Answer) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over {
		return nil
	}
	into.HTTPStatus = s.status
	f := c.measured(s, cause)
	c.gaveUp(s)
	c.cut(s, cause, http2.ErrCodeCancel)
	return f
}

// remove takes a stream out of the connection.
func (c *ClientConn) remove(s *clientStream) {
	s.over = true
	c.waiting.remove(s)
	delete(c.streams, s.id)
	c.owes(time.Now())
	c.recount()
	if c.err != nil && len(c.streams) == 0 {
		c.fail(c.err) // it was only kept for the calls on it
	}
}

// end ends a stream for its caller, with an error where it ended badly. Only the
// reader may end one well.
func (c *ClientConn) end(s *clientStream, err error) {
	if s.over {
		return
	}
	s.err = err
	c.remove(s)
	s.done <- struct{}{}
}

// cut ends a stream and tells the peer, because of an error or because what is
// left of the call is of no use.
func (c *ClientConn) cut(s *clientStream, err error, code http2.ErrCode) {
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
func (c *ClientConn) failure(s *clientStream, into *Answer) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	into.HTTPStatus = s.status
	return c.measured(s, s.err)
}

// measured says how much of the request left.
func (c *ClientConn) measured(s *clientStream, cause error) *Failure {
	taken := c.handed // bytes within a write may have left
	if c.writeBegan.IsZero() {
		taken = c.sent
	}
	return &Failure{Cause: cause, Began: s.begun && s.from < taken, Complete: s.ended && s.to <= taken}
}

// streamList is a queue that streams can be taken out of.
type streamList struct{ first, last *clientStream }

func (l *streamList) add(s *clientStream) {
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

func (l *streamList) remove(s *clientStream) {
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

const (
	// preallocated is the largest buffer that the peer's length prefix alone can
	// reserve. Beyond it, the buffer grows only as bytes arrive.
	preallocated = 1 << 20
	// growth is the factor by which the buffer then grows. A large message is copied
	// once or twice, where append would copy it a dozen times.
	growth = 4
)

// messageReader takes in the body of an answer: messages, each behind its
// prefix. It keeps the first and counts on.
type messageReader struct {
	limit  int // of each message
	prefix [prefixBytes]byte
	have   int // bytes of the prefix
	left   int // bytes of the message that have not come
	inside bool
	count  int
	kept   []byte
	flags  byte
}

// cut reports whether the body ended within a message.
func (m *messageReader) cut() bool { return m.inside || m.have > 0 }

// take takes in a piece of the body.
func (m *messageReader) take(p []byte) error {
	for len(p) > 0 {
		if !m.inside {
			n := copy(m.prefix[m.have:], p)
			m.have += n
			p = p[n:]
			if m.have < prefixBytes {
				return nil
			}
			if err := m.open(); err != nil {
				return err
			}
			continue
		}
		n := min(m.left, len(p))
		if m.count == 0 {
			m.grow(n)
			m.kept = append(m.kept, p[:n]...)
		}
		m.took(n)
		p = p[n:]
	}
	return nil
}

// open begins the message whose prefix is complete.
func (m *messageReader) open() error {
	m.have = 0
	size := binary.BigEndian.Uint32(m.prefix[1:])
	if int64(size) > int64(m.limit) {
		return ErrAnswerTooLarge
	}
	m.inside, m.left = true, int(size)
	if m.count == 0 {
		m.flags = m.prefix[0]
		m.kept = make([]byte, 0, min(m.left, preallocated))
	}
	m.took(0)
	return nil
}

// took counts bytes of the message, and closes it behind the last.
func (m *messageReader) took(n int) {
	m.left -= n
	if m.left == 0 {
		m.inside = false
		m.count++
	}
}

// grow makes room for n bytes, and for more of what was announced.
func (m *messageReader) grow(n int) {
	have := len(m.kept)
	if cap(m.kept)-have >= n {
		return
	}
	more := min(max(n, (growth-1)*have), m.left)
	m.kept = append(make([]byte, 0, have+more), m.kept...)
}

// room is where the next bytes of the first message may be read to, at most n;
// empty where something else comes next.
func (m *messageReader) room(n int) []byte {
	if !m.inside || m.count > 0 {
		return nil
	}
	at := len(m.kept)
	return m.kept[at:min(cap(m.kept), at+min(n, m.left))]
}

// filled tells that n bytes were read to there.
func (m *messageReader) filled(n int) {
	m.kept = m.kept[:len(m.kept)+n]
	m.took(n)
}

// Causes of a Failure, besides errors of the socket and [*ResetError].
var (
	// errClosed means that Close was called.
	errClosed = errors.New("the connection was closed")
	// ErrGoAway means that the peer is shutting the connection down and did not process
	// the request.
	ErrGoAway = errors.New("the server is shutting the connection down and did not process the request")
	// errHeaderTooLarge means that the header fields of the response exceed their limit.
	errHeaderTooLarge = errors.New("the headers of the response are too large")
	// ErrAnswerTooLarge means that the message of the response exceeds its limit.
	ErrAnswerTooLarge = errors.New("the response is too large")
	// ErrRequestHeader means that the request has more header fields than the peer
	// accepts.
	ErrRequestHeader = errors.New("the metadata exceeds the server's limit")
	// errSilent means that the peer did not answer a ping.
	errSilent = errors.New("the server does not answer pings")
	// errStuck means that a write made no progress for too long.
	errStuck = errors.New("the server does not read")
	// errStreamIDs means that the connection has used all its stream ids.
	errStreamIDs = errors.New("the connection has no stream ids left")
)

// ResetError means that the peer reset the stream of a call.
type ResetError struct {
	// Code is an error code of RFC 9113, section 7.
	Code http2.ErrCode
}

// Error implements error.
func (e *ResetError) Error() string {
	return fmt.Sprintf("the server reset the stream with code %d", e.Code)
}

// protocolError means that the peer violated HTTP/2, on one stream or on the connection.
type protocolError struct {
	// Code is an error code of RFC 9113, section 7.
	Code   http2.ErrCode
	Reason string
}

// Error implements error.
func (e *protocolError) Error() string { return "HTTP/2: " + e.Reason }

func broken(code http2.ErrCode, format string, args ...any) *protocolError {
	return &protocolError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Failure is the type of every error of [ClientConn.Do].
type Failure struct {
	// Cause is an error of this package, of the socket, or of the context.
	Cause error
	// Began is false if certainly no byte of the request was sent, Complete if certainly
	// not all of them were. A method does not run on a partial request.
	Began, Complete bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Cause.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Unprocessed reports whether the peer said that it did not process the request (RFC
// 9113, section 8.7), so that a retry is safe.
func (f *Failure) Unprocessed() bool {
	reset := new(ResetError)
	return errors.Is(f.Cause, ErrGoAway) || errors.As(f.Cause, &reset) && reset.Code == http2.ErrCodeRefusedStream
}
