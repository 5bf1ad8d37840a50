// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Stream is an open RPC of any kind. One goroutine may call Send and CloseSend while
// another calls Receive; Header, Trailer and Close may be called by any. The call ends
// when its context does, at once and at both ends. Always call Close.
type Stream struct {
	method  *Method
	kind    connect.StreamType
	caller  context.Context // that of OpenStream
	ctx     context.Context // ends with the stream
	cancel  context.CancelFunc
	link    *link
	conn    connect.StreamingClientConn
	body    *sendBody
	facts   *facts
	message rawMessage // of the last Receive
	over    error      // what Receive returns from now on
	unary   *unaryStream

	mu      sync.Mutex
	attempt *tracing.Attempt // nil without tracing, and once it has ended
	header  http.Header
	trailer http.Header
	heard   bool // header is what the peer sent
}

// OpenStream opens an RPC; see [Method.OpenStream]. It caches a Method for each
// procedure, as Call does.
func (c *Client) OpenStream(ctx context.Context, procedure string, kind connect.StreamType, md http.Header) (*Stream, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
	}
	return m.OpenStream(ctx, kind, md)
}

// OpenStream opens an RPC of any kind with md as metadata. The kind must be that of the
// method. The request begins at once, but OpenStream does not wait for a response: where
// the backend cannot be reached, Receive says so. The error is an *Error.
//
// The stream carries the context's deadline to the service, and has no other. Messages
// are bounded one by one, by MaxRequestBytes and MaxResponseBytes; their number is not.
// Flow control holds in both directions: Send waits for a service that does not read,
// and a service waits while Receive is not called. A stream keeps less than 64 KiB
// beside the messages that are under way.
//
// Bidirectional streams always use HTTP/2. On a backend without it they fail with
// KindUnsupported.
//
// Where the context has [tracing.Calls], the RPC is a span with the number of messages
// that were received.
func (m *Method) OpenStream(ctx context.Context, kind connect.StreamType, md http.Header) (*Stream, error) {
	if kind == connect.StreamTypeUnary {
		if _, err := m.check(nil, md); err != nil {
			return nil, err
		}
		return &Stream{method: m, kind: kind, caller: ctx, unary: newUnaryStream(ctx, m, md)}, nil
	}
	a := m.attempt(ctx)
	s, err := m.open(ctx, a, kind, md)
	if err != nil {
		if a != nil {
			m.ended(a, err)
		}
		return nil, err
	}
	return s, nil
}

func (m *Method) open(ctx context.Context, a *tracing.Attempt, kind connect.StreamType, md http.Header) (*Stream, error) {
	metadata, err := m.check(nil, md)
	if err != nil {
		return nil, err
	}
	metadata = injected(a, metadata)
	l, err := m.find(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stream{method: m, kind: kind, caller: ctx, link: l, attempt: a, body: newSendBody(&m.client.sendBuffers)}
	s.facts = &facts{stream: true, send: s.body}
	s.ctx, s.cancel = context.WithCancel(s.facts.attach(ctx))
	if kind == connect.StreamTypeBidi {
		stream := m.duplexOn(l).CallBidiStream(s.ctx)
		s.conn, _ = stream.Conn() // the error is of a client that was not made
	} else {
		// A request body that streams is right for server streams too: they are the same on
		// the wire, but for methods called over HTTP/1.1, which may not be bidirectional.
		stream := m.on(l).CallClientStream(s.ctx)
		s.conn, _ = stream.Conn()
	}
	maps.Copy(s.conn.RequestHeader(), metadata)
	_ = s.conn.Send(nil) // begins the request; Receive tells how that went
	return s, nil
}

// Send sends one encoded message. It returns when the message is on its way, not when
// it has arrived, and does not keep message. The error is io.EOF if the RPC has ended,
// and Receive then tells how; it is an *Error if the message cannot be sent.
func (s *Stream) Send(message []byte) error {
	if limit := s.method.client.opts.MaxRequestBytes; len(message) > limit {
		return newError(KindRequestTooLarge, fmt.Sprintf("the message has %d bytes; the limit is %d (backend.max_send_bytes)", len(message), limit), nil)
	}
	if s.unary != nil {
		return s.unary.send(message)
	}
	return s.body.send(message)
}

// CloseSend tells the service that no message follows. It returns at once, and may be
// called twice.
func (s *Stream) CloseSend() error {
	if s.unary != nil {
		s.unary.complete()
	} else {
		s.body.end()
	}
	return nil
}

// Receive returns the next encoded message, valid until the next call. It returns
// io.EOF when the service has ended the RPC well, and an *Error if it ended otherwise.
// The response of a unary or client-streaming method counts as received when the status
// of the RPC is there: it is exactly one message, or an error.
func (s *Stream) Receive() ([]byte, error) {
	switch {
	case s.unary != nil:
		return s.unary.receive()
	case s.over != nil:
		return nil, s.over
	}
	if err := s.next(); err != nil {
		s.end(err)
		return nil, s.over
	}
	if s.kind&connect.StreamTypeServer == 0 {
		return s.only()
	}
	return s.message, nil
}

// next receives one message.
func (s *Stream) next() error {
	if cap(s.message) > keptBuffer {
		s.message = nil
	}
	s.message = s.message[:0] // the library leaves it alone where the next message is empty
	err := s.conn.Receive(&s.message)
	if err == nil || errors.Is(err, io.EOF) || connect.IsWireError(err) {
		s.keepHeader()
	}
	if err == nil {
		if s.message == nil {
			s.message = []byte{} // an empty message is one
		}
		s.mu.Lock()
		s.attempt.Message()
		s.mu.Unlock()
	}
	return err
}

// only is the message that was received where there may be no other.
func (s *Stream) only() ([]byte, error) {
	message := s.message
	s.message = nil
	switch err := s.next(); {
	case err == nil:
		s.end(errMoreThanOne)
		return nil, s.over
	case !errors.Is(err, io.EOF):
		s.end(err)
		return nil, s.over
	}
	s.message = message
	s.end(io.EOF)
	return message, nil
}

var (
	errMoreThanOne = errors.New("the response has more than one message")
	errNoMessage   = errors.New("the response has no message")
)

// end keeps why the stream has ended, and ends it.
func (s *Stream) end(err error) {
	single := s.kind&connect.StreamTypeServer == 0
	switch {
	case errors.Is(err, errMoreThanOne), single && errors.Is(err, io.EOF) && s.message == nil:
		if !errors.Is(err, errMoreThanOne) {
			err = errNoMessage
		}
		s.over = s.violated(err)
	case errors.Is(err, io.EOF):
		s.over = io.EOF
	default:
		s.over = s.failed(err)
	}
	s.mu.Lock()
	if s.heard || !s.isOver() {
		s.trailer = incoming(s.conn.ResponseTrailer())
	}
	s.mu.Unlock()
	if failed := new(Error); errors.As(s.over, &failed) {
		s.finish(failed)
	} else {
		s.finish(nil)
	}
	_ = s.conn.CloseResponse() // on the goroutine that reads it; frees the place in the pool
}

// violated is the failure of a response that is none of its method's.
func (s *Stream) violated(err error) *Error {
	e := newError(KindGarbage, "the response violates the protocol", err)
	e.Sent = true
	return e
}

// failed classifies the error of a Receive. Once the context has ended, what the
// transport notes of the exchange may still change, and is not looked at.
func (s *Stream) failed(err error) *Error {
	if !s.isOver() || connect.IsWireError(err) {
		if cause := s.facts.sendErr; s.link.protocol != ProtocolGRPC && (errors.Is(cause, errHTTP1) || errors.Is(cause, errNoHTTP2)) {
			s.method.client.lacksHTTP2(s.link)
			return newError(KindUnsupported, "the backend offers HTTP/1.1 only; bidirectional streams need HTTP/2", cause)
		}
		return s.method.client.fail(s.caller, s.link, err, s.facts)
	}
	kind := ended(s.caller)
	if kind == 0 {
		kind = KindCancelled // by Close
	}
	e := ourEnd(kind, s.facts.began())
	e.cause = err
	return e
}

// isOver reports whether the stream's context has ended.
func (s *Stream) isOver() bool { return s.ctx.Err() != nil }

// keepHeader keeps the header of a response that has come.
func (s *Stream) keepHeader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard {
		return
	}
	s.heard = true
	h := s.conn.ResponseHeader()
	if _, trailersOnly := h["Grpc-Status"]; !trailersOnly { // gRPC: such a response has no header
		s.header = incoming(h)
	}
}

// Header waits for the header of the response and returns its metadata, without the
// protocol's own entries. It is nil if there is none, or if the RPC ended before.
func (s *Stream) Header() http.Header {
	if s.unary != nil {
		return s.unary.header()
	}
	s.conn.ResponseHeader() // waits, also for the context
	if !s.isOver() && s.facts.httpStatus == http.StatusOK {
		s.keepHeader()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header
}

// Responded reports whether a response has come. Call it after Header.
func (s *Stream) Responded() bool {
	if s.unary != nil {
		return s.unary.answer != nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// Trailer returns the metadata of the response's trailer, without the protocol's own
// entries. It is nil if there is none, and before Receive has returned an error.
func (s *Stream) Trailer() http.Header {
	if s.unary != nil {
		return s.unary.trailer()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trailer
}

// Close ends the RPC, if it has not ended, and frees what it holds. A Receive under way
// returns an *Error of KindCancelled. Close does not wait for the service, and may be
// called twice.
func (s *Stream) Close() {
	if s.unary != nil {
		s.unary.cancel()
		return
	}
	s.finish(errClosedStream)
}

// errClosedStream is no failure: the caller wanted no more.
var errClosedStream = errors.New("backend: the stream was closed")

// finish ends the stream's context, which ends everything else, and its span.
func (s *Stream) finish(err error) {
	s.cancel()
	_ = s.body.Close()
	s.mu.Lock()
	a := s.attempt
	s.attempt = nil
	s.mu.Unlock()
	if a == nil {
		return
	}
	a.Messages()
	s.method.ended(a, err)
}
