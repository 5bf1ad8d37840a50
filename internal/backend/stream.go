// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// keptBuffer is the largest message buffer that a stream keeps for its next
// message: most messages fit, and a stream that is silent for hours after one
// large message holds no megabytes meanwhile.
const keptBuffer = 64 << 10

// Stream calls a server-streaming procedure with the encoded message in, and passes every message of the response to each,
// in order and on the caller's goroutine. It returns when the service has ended the
// stream. The bytes passed to each are valid until it returns. Stream does not read
// while each runs, so a slow each slows down the service, but no other calls.
//
// Deadline, cancellation and metadata work as with [Client.Call]. There is no limit on
// the number of messages, their total size, or the silence between two. MaxResponseBytes
// bounds each message, after decompression.
//
// If each returns an error, Stream cancels the call and returns that error wrapped
// (errors.Is and errors.As find it). Every other error is an *Error, with the kinds of a
// unary call, and may follow messages. The Answer holds the metadata. It is also
// returned with an error, with only the header, if the header had arrived.
//
// Where the context has [telemetry.Calls], the call is a span with the number of messages.
func (c *Client) Stream(ctx context.Context, procedure string, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
	}
	a := m.attempt(ctx)
	if a == nil {
		return m.stream(ctx, nil, in, md, each)
	}
	answer, err := m.stream(ctx, a, in, md, func(message []byte) error {
		a.Message()
		return each(message)
	})
	a.Messages()
	m.ended(a, err)
	return answer, err
}

func (m *method) stream(ctx context.Context, a *telemetry.Attempt, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
	c := m.client
	metadata, err := m.check(in, md)
	if err != nil {
		return nil, err
	}
	l, err := m.find(ctx)
	switch {
	case err != nil:
		return nil, err
	case l.many != nil:
		return l.many.stream(ctx, m.procedure, a, in, metadata, each)
	}
	metadata = injected(a, metadata)
	f := &facts{stream: true}
	callCtx, cancel := context.WithCancel(f.attach(ctx))
	defer cancel()
	stream, err := m.on(l).CallServerStream(callCtx, request(in, metadata))
	if err != nil {
		return nil, c.fail(ctx, l, err, f)
	}
	defer func() {
		cancel() // a stream that is closed before its end is given up, not waited for
		_ = stream.Close()
	}()
	conn, _ := stream.Conn() // the error is of a stream that was not made
	err, stopped := receive(conn, each)
	switch {
	case stopped:
		return header(conn, f), fmt.Errorf("backend: the receiver ended the stream: %w", err)
	case err != nil:
		return header(conn, f), c.fail(ctx, l, err, f)
	}
	return &Answer{Header: incoming(conn.ResponseHeader()), Trailer: incoming(conn.ResponseTrailer())}, nil
}

// receive passes messages on until the stream ends. It reports whether the
// error is the receiver's.
func receive(conn connect.StreamingClientConn, each func([]byte) error) (err error, stopped bool) {
	var message rawMessage
	for {
		if cap(message) > keptBuffer {
			message = nil
		}
		message = message[:0] // the library leaves it alone where the next message is empty
		if err := conn.Receive(&message); err != nil {
			if errors.Is(err, io.EOF) { // how the library says that all is well
				err = nil
			}
			return err, false
		}
		if err := each(message); err != nil {
			return err, true
		}
	}
}

// header is what an ended call had received, nil where that is nothing.
func header(conn connect.StreamingClientConn, f *facts) *Answer {
	if f.httpStatus != http.StatusOK {
		return nil
	}
	return &Answer{Header: incoming(conn.ResponseHeader())}
}

// Stream is an open RPC that streams. One goroutine may call Send and CloseSend while
// another calls Receive; Header, Trailer and Close may be called by any. The call ends
// when its context does, at once and at both ends. Always call Close.
type Stream struct {
	method  *method
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

	mu      sync.Mutex
	attempt *telemetry.Attempt // nil without tracing, and once it has ended
	header  http.Header
	trailer http.Header
	heard   bool // header is what the peer sent
	// done, if set, takes how the stream ended: a failure, errClosedStream, or nil.
	done func(error)
}

// OpenStream opens a streaming RPC with md as metadata. The kind must be that of the
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
// Where the context has [telemetry.Calls], the RPC is a span with the number of messages
// that were received.
func (c *Client) OpenStream(ctx context.Context, procedure string, kind connect.StreamType, md http.Header) (*Stream, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
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

func (m *method) open(ctx context.Context, a *telemetry.Attempt, kind connect.StreamType, md http.Header) (*Stream, error) {
	metadata, err := m.check(nil, md)
	if err != nil {
		return nil, err
	}
	l, err := m.find(ctx)
	switch {
	case err != nil:
		return nil, err
	case l.many != nil:
		return l.many.open(ctx, m.procedure, a, kind, metadata)
	}
	metadata = injected(a, metadata)
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
// and Receive then tells how; it is an *errmap.Error if the message cannot be sent.
func (s *Stream) Send(message []byte) error { return s.canonical(s.send(message)) }

func (s *Stream) send(message []byte) error {
	if limit := s.method.client.opts.maxSend; len(message) > limit {
		return newError(KindRequestTooLarge, fmt.Sprintf("the message has %d bytes; the limit is %d (backend.max_send_bytes)", len(message), limit), nil)
	}
	return s.body.send(message)
}

// CloseSend tells the service that no message follows. It returns at once, and may be
// called twice.
func (s *Stream) CloseSend() { s.body.endMessages() }

// canonical gives what failed its canonical code.
func (s *Stream) canonical(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return canonical(s.caller, err)
}

// Receive returns the next encoded message, valid until the next call. It returns
// io.EOF when the service has ended the RPC well, and an *errmap.Error if it ended otherwise, whose cause is an *Error.
// The response of a client-streaming method counts as received when the status
// of the RPC is there: it is exactly one message, or an error.
func (s *Stream) Receive() ([]byte, error) {
	message, err := s.receive()
	return message, s.canonical(err)
}

func (s *Stream) receive() ([]byte, error) {
	if s.over != nil {
		return nil, s.over
	}
	if err := s.next(); err != nil {
		s.endWith(err)
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
		s.endWith(errMoreThanOne)
		return nil, s.over
	case !errors.Is(err, io.EOF):
		s.endWith(err)
		return nil, s.over
	}
	s.message = message
	s.endWith(io.EOF)
	return message, nil
}

var (
	errMoreThanOne = errors.New("the response has more than one message")
	errNoMessage   = errors.New("the response has no message")
)

// endWith keeps why the stream has ended, and ends it.
func (s *Stream) endWith(err error) {
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
	e := ourEnd(kind, s.facts.mayHaveBegun())
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

// Header waits for the header of the response. It returns its metadata, without the protocol's own
// entries, and whether a response has come. The RPC may have ended before.
func (s *Stream) Header() (http.Header, bool) {
	s.conn.ResponseHeader() // waits, also for the context
	if !s.isOver() && s.facts.httpStatus == http.StatusOK {
		s.keepHeader()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header, s.heard
}

// Trailer returns the metadata of the response's trailer, without the protocol's own
// entries. It is nil if there is none, and before Receive has returned an error.
func (s *Stream) Trailer() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trailer
}

// Close ends the RPC, if it has not ended, and frees what it holds. A Receive under way
// returns an error of KindCancelled. Close does not wait for the service, and may be
// called twice.
func (s *Stream) Close() {
	s.finish(errClosedStream)
}

// errClosedStream is no failure: the caller wanted no more.
var errClosedStream = errors.New("backend: the stream was closed")

// finish ends the stream's context, which ends everything else, and its span.
func (s *Stream) finish(err error) {
	s.cancel()
	_ = s.body.Close()
	s.mu.Lock()
	a, done := s.attempt, s.done
	s.attempt, s.done = nil, nil
	s.mu.Unlock()
	if done != nil {
		done(err)
	}
	if a == nil {
		return
	}
	a.Messages()
	s.method.ended(a, err)
}

// sendBuffer is how much of a stream's messages waits for the transport at most. One
// frame of HTTP/2 carries as much, so that small messages leave together and no stream
// holds more.
const sendBuffer = 16 << 10

// sendBody is the request body of an open stream. The sender appends framed messages and
// waits while the buffer is full; the transport reads. It holds memory only while
// something waits in it.
type sendBody struct {
	buffers *sync.Pool // of *[sendBuffer]byte

	mu     sync.Mutex
	change sync.Cond // of any field below
	memory *[sendBuffer]byte
	queued []byte // what waits, a part of memory
	ended  bool   // the sender has said everything
	closed bool   // the transport reads no more
}

func newSendBody(buffers *sync.Pool) *sendBody {
	b := &sendBody{buffers: buffers}
	b.change.L = &b.mu
	return b
}

// send appends a message with its prefix, which is the same in all protocols. It
// returns io.EOF once the transport reads no more.
func (b *sendBody) send(message []byte) error {
	var prefix [5]byte // no flags, then the length
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.append(prefix[:]); err != nil {
		return err
	}
	return b.append(message)
}

// append copies p into the buffer, piece by piece where it does not fit.
func (b *sendBody) append(p []byte) error {
	for len(p) > 0 {
		switch {
		case b.closed || b.ended:
			return io.EOF
		case len(b.queued) == sendBuffer:
			b.change.Wait()
			continue
		case b.memory == nil:
			b.memory = b.buffers.Get().(*[sendBuffer]byte) //nolint:forcetypeassert // of one type
			b.queued = b.memory[:0]
		}
		room := cap(b.queued) - len(b.queued)
		if room == 0 { // at the end of the memory, and not full
			b.queued = append(b.memory[:0], b.queued...)
			continue
		}
		n := min(room, len(p))
		b.queued = append(b.queued, p[:n]...)
		p = p[n:]
		b.change.Broadcast()
	}
	return nil
}

// Read implements io.Reader. It waits for something to send.
func (b *sendBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queued) == 0 {
		switch {
		case b.closed:
			return 0, io.ErrClosedPipe
		case b.ended:
			return 0, io.EOF
		}
		b.change.Wait()
	}
	n := copy(p, b.queued)
	if b.queued = b.queued[n:]; len(b.queued) == 0 {
		b.release()
	}
	b.change.Broadcast()
	return n, nil
}

// endMessages says that no message follows.
func (b *sendBody) endMessages() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.change.Broadcast()
}

// Close implements io.Closer: the transport reads no more.
func (b *sendBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.release()
	b.change.Broadcast()
	return nil
}

func (b *sendBody) release() {
	if b.memory != nil {
		b.buffers.Put(b.memory)
		b.memory, b.queued = nil, nil
	}
}

// readAhead is how much of a stream's response is read at a time.
const readAhead = 64 << 10

// aheads has memory for what was read ahead.
var aheads = sync.Pool{New: func() any { return new([readAhead]byte) }} //nolint:gochecknoglobals // a pool

// aheadBody reads what has come of a stream's response at once, so that the transport's
// locks and WINDOW_UPDATE frames are those of many messages. It holds memory only within
// a message, or while it has something: a short read, as of a message's prefix, waits
// with the caller's memory. One goroutine may read; Close leaves the memory to it.
type aheadBody struct {
	io.ReadCloser

	memory *[readAhead]byte
	ready  []byte // part of memory
	err    error  // what came with it
}

// Read implements io.Reader.
func (b *aheadBody) Read(p []byte) (int, error) {
	if len(b.ready) == 0 {
		if err := b.err; err != nil {
			b.err = nil
			return 0, err
		}
		if len(p) < leastAhead || len(p) >= readAhead {
			return b.ReadCloser.Read(p)
		}
		b.memory = aheads.Get().(*[readAhead]byte) //nolint:forcetypeassert // of one type
		n, err := b.ReadCloser.Read(b.memory[:])
		b.ready, b.err = b.memory[:n], err
	}
	n := copy(p, b.ready)
	if b.ready = b.ready[n:]; len(b.ready) == 0 {
		aheads.Put(b.memory)
		b.memory, b.ready = nil, nil
	}
	if n == 0 && len(p) > 0 {
		err := b.err
		b.err = nil
		return 0, err
	}
	return n, nil
}

// leastAhead is below what the library reads of a message at a time, and above the
// prefix of one.
const leastAhead = 16
