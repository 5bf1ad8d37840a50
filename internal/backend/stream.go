// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// keptBuffer is the largest message buffer that a stream keeps for its next
// message: most messages fit, and a stream that is silent for hours after one
// large message holds no megabytes meanwhile.
const keptBuffer = 64 << 10

// Stream calls a server-streaming procedure with an encoded message. Like Call, it
// caches a Method for each procedure; see [Method.Stream].
func (c *Client) Stream(ctx context.Context, procedure string, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
	}
	return m.Stream(ctx, in, md, each)
}

// Stream sends the encoded message in and passes every message of the response to each,
// in order and on the caller's goroutine. It returns when the service has ended the
// stream. The bytes passed to each are valid until it returns. Stream does not read
// while each runs, so a slow each slows down the service, but no other calls.
//
// Deadline, cancellation and metadata work as with [Method.Call]. There is no limit on
// the number of messages, their total size, or the silence between two. MaxResponseBytes
// bounds each message, after decompression.
//
// If each returns an error, Stream cancels the call and returns that error wrapped
// (errors.Is and errors.As find it). Every other error is an *Error, with the kinds of a
// unary call, and may follow messages. The Answer holds the metadata. It is also
// returned with an error, with only the header, if the header had arrived.
//
// Where the context has [tracing.Calls], the call is a span with the number of messages.
func (m *Method) Stream(ctx context.Context, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
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

func (m *Method) stream(ctx context.Context, a *tracing.Attempt, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
	c := m.client
	metadata, err := m.check(in, md)
	if err != nil {
		return nil, err
	}
	metadata = injected(a, metadata)
	l, err := m.find(ctx)
	if err != nil {
		return nil, err
	}
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
