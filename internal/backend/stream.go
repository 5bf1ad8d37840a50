// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

// keptBuffer is the largest message buffer that a stream keeps for its next
// message: most messages fit, and a stream that is silent for hours after one
// large message holds no megabytes meanwhile.
const keptBuffer = 64 << 10

// Stream calls a server-streaming procedure with an encoded message. It keeps a
// Method for each procedure, like Call; see [Method.Stream].
func (c *Client) Stream(ctx context.Context, procedure string, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
	}
	return m.Stream(ctx, in, md, each)
}

// Stream sends the encoded message in and hands every message of the answer to
// each, in order and on the caller's goroutine; it returns when the service has
// ended the stream. The bytes that each gets are valid until it returns. While
// each runs nothing more is read, so a slow one slows the service down, not
// other calls.
//
// Deadline, cancellation and metadata go as with [Method.Call]. There is no
// bound on the number of messages, on their sum, or on the silence between two;
// each single one is bounded by MaxResponseBytes, after decompression.
//
// Where each returns an error, the call is cancelled and that error comes back
// wrapped (errors.Is and errors.As find it). Every other error is an *Error, of
// the kinds of a unary call; messages may have arrived before it. The Answer
// holds the metadata. It is there beside an error too, with the header alone,
// if the header had arrived.
func (m *Method) Stream(ctx context.Context, in []byte, md http.Header, each func(message []byte) error) (*Answer, error) {
	c := m.client
	metadata, err := m.check(in, md)
	if err != nil {
		return nil, err
	}
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
