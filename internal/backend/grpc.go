// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/boundedgzip"
	"github.com/outrigger-mcp/outrigger/internal/grpcwire"
)

// Unary gRPC calls, which nearly all calls are, go around the RPC library and
// net/http: see docs/decisions/0013-the-backend-client.md.

// callGRPC makes a unary call over gRPC. parent is the value of traceparent; "" for none, or for one in header.
func (m *Method) callGRPC(ctx context.Context, l *link, in []byte, header http.Header, parent string) (*Answer, error) {
	c := m.client
	f, answer := new(facts), new(grpcwire.Answer)
	req := c.wireRequest(ctx, m.procedure, in, header)
	req.TraceParent = parent
	if err := c.exchange(ctx, &req, answer, f); err != nil {
		e := wireFailure(ctx, err, f)
		if e.Kind == KindTooLarge {
			e.Message = c.tooLarge()
		}
		c.reconsider(l, e)
		return nil, e
	}
	got, e := c.read(ctx, answer)
	if e != nil {
		e.HTTPStatus = answer.HTTPStatus
		c.maskError(ctx, e)
		c.reconsider(l, e)
		return nil, e
	}
	return got, nil
}

// wireRequest is a call as the wire takes it. A deadline that has passed is sent
// as the shortest time that there is.
func (c *Client) wireRequest(ctx context.Context, procedure string, in []byte, header http.Header) grpcwire.Request {
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok && !hasPrivateDeadline(ctx) {
		timeout = max(time.Until(deadline), 1)
	}
	return grpcwire.Request{
		Scheme: c.scheme, Authority: c.target.host, Path: c.target.prefix + procedure, UserAgent: c.userAgent(),
		Timeout: timeout, AcceptGzip: c.opts.Gzip, Metadata: c.withCredentials(ctx, header), Message: in, MaxAnswer: c.opts.MaxResponseBytes,
		Again: againOf(ctx),
	}
}

// userAgent names who calls.
func (c *Client) userAgent() string {
	if c.opts.UserAgent != "" {
		return c.opts.UserAgent
	}
	return "outrigger"
}

// exchange sends a request and reads the answer. It sends again what the peer
// turned away unprocessed, and leaves in f what the last attempt showed.
func (c *Client) exchange(ctx context.Context, req *grpcwire.Request, answer *grpcwire.Answer, f *facts) error {
	f.onHTTP2 = true
	for replays := 0; ; replays++ {
		err := c.attempt(ctx, req, answer, f)
		f.httpStatus, f.sendErr = answer.HTTPStatus, err
		failed := new(grpcwire.Failure)
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		f.sendErr = failed.Cause
		f.wroteHeaders.Store(failed.Began)
		f.wroteRequest.Store(failed.Complete)
		again := failed.Unprocessed() || !failed.Began && !errors.Is(failed.Cause, grpcwire.ErrRequestHeader)
		if !again || replays == maxReplays || !pause(ctx, replays) {
			return failed.Cause
		}
	}
}

// attempt makes one attempt; its error is a *grpcwire.Failure where there was a
// connection.
func (c *Client) attempt(ctx context.Context, req *grpcwire.Request, answer *grpcwire.Answer, f *facts) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	conn, err := c.wires.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.wires.release(conn)
	f.connected.Store(true)
	f.conn.Store(conn.conn)
	return conn.wire.Do(ctx, req, answer)
}

// wireFailure classifies the failure of an exchange.
func wireFailure(ctx context.Context, err error, f *facts) *Error {
	e := func() *Error {
		if ours := ended(ctx); ours != 0 {
			return ourEnd(ours, f.began())
		}
		if errors.Is(err, grpcwire.ErrRequestHeader) {
			return newError(KindRequestTooLarge, tooManyFieldsText, nil)
		}
		if f.httpStatus == 0 {
			return noResponse(ctx, f)
		}
		f.overLimit = errors.Is(err, grpcwire.ErrAnswerTooLarge)
		f.bodyErr = err
		return badResponse(ctx, nil, f)
	}()
	e.HTTPStatus, e.cause = f.httpStatus, err
	return e
}

// read tells what a complete answer of HTTP is to gRPC. The status comes first, whatever
// surrounds it: where the service says that it failed, the rest means nothing. It comes
// behind the messages, or in the header of a response without any.
func (c *Client) read(ctx context.Context, a *grpcwire.Answer) (*Answer, *Error) {
	if a.HasTrailingStatus || a.Messages == 0 {
		if e := statusOf(ctx, a); e != nil {
			return nil, e
		}
	}
	kind := mediaType(a.ContentType)
	switch {
	case !isGRPCType(kind) || a.HTTPStatus != http.StatusOK && !a.HasStatus:
		e := notTheService(a.HTTPStatus, kind, a.Header, false)
		e.Sent, e.cause = true, fmt.Errorf("HTTP status %d, content type %q", a.HTTPStatus, clip(a.ContentType))
		return nil, e
	case kind != "application/grpc" && kind != "application/grpc+proto":
		return nil, garbage(`content type %q instead of "application/grpc"`, clip(a.ContentType))
	case a.Encoding != "" && a.Encoding != "identity" && a.Encoding != "gzip":
		return nil, garbage("unknown encoding %q", clip(a.Encoding))
	case !a.HasStatus:
		return nil, garbage("the response has no grpc-status")
	case strings.Trim(a.Status, "0") != "" || a.Status == "":
		return nil, garbage("grpc-status %q is not a number", clip(a.Status))
	case a.Messages > 0 && !a.HasTrailingStatus:
		return nil, garbage("the response has a message, and no grpc-status after it")
	case a.Cut:
		return nil, garbage("the response ends within a message")
	case a.Messages != 1:
		return nil, garbage("the response of a unary call has %d messages", a.Messages)
	}
	body, e := c.inflated(a)
	if e != nil {
		return nil, e
	}
	return &Answer{Body: body, Header: incoming(a.Header), Trailer: incoming(a.Trailer)}, nil
}

// garbage is an answer that is none of the protocol.
func garbage(format string, args ...any) *Error {
	e := newError(KindGarbage, "the response violates the protocol", fmt.Errorf(format, args...))
	e.Sent = true
	return e
}

// inflated is the message without its compression.
func (c *Client) inflated(a *grpcwire.Answer) ([]byte, *Error) {
	const compressed = 1
	switch {
	case a.Flags == 0:
		return a.Message, nil
	case a.Flags != compressed:
		return nil, garbage("a message with flags %#x", a.Flags)
	case a.Encoding != "gzip":
		return nil, garbage("a compressed message without an encoding")
	case len(a.Message) == 0:
		return a.Message, nil
	}
	reader := boundedgzip.New(c.opts.MaxResponseBytes)
	if err := reader.Reset(bytes.NewReader(a.Message)); err != nil {
		return nil, garbage("not gzip: %w", err)
	}
	body, err := io.ReadAll(reader)
	switch {
	case errors.Is(err, boundedgzip.ErrOverLimit), len(body) > c.opts.MaxResponseBytes:
		e := newError(KindTooLarge, c.tooLarge(), err)
		e.Sent = true
		return nil, e
	case err != nil:
		return nil, garbage("not gzip: %w", err)
	}
	return body, nil
}

// statusOf is the failure that the service reports (gRPC over HTTP/2, responses); nil if
// it reports none.
func statusOf(ctx context.Context, a *grpcwire.Answer) *Error {
	e := grpcFailure(ctx, a.Status, a.StatusMessage, a.StatusDetails)
	if e == nil || e.Kind != KindStatus {
		return e
	}
	e.RetryAfter = retryHint(a.Trailer, a.Header)
	e.Header, e.Trailer = incoming(a.Header), incoming(a.Trailer)
	return e
}
