// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/content/boundedgzip"
	"github.com/outrigger-mcp/outrigger/internal/h2"
)

// Unary gRPC calls, which nearly all calls are, go around the RPC library and
// net/http: see docs/decisions/0013-the-backend-client.md.

// callGRPC makes a unary call over gRPC. parent is the value of traceparent; "" for none, or for one in header.
func (m *method) callGRPC(ctx context.Context, l *link, in []byte, header http.Header, parent string) (*Answer, error) {
	c := m.client
	f, answer := new(facts), new(h2.Answer)
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
func (c *Client) wireRequest(ctx context.Context, procedure string, in []byte, header http.Header) h2.Request {
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok && !hasPrivateDeadline(ctx) {
		timeout = max(time.Until(deadline), 1)
	}
	return h2.Request{
		Scheme: c.scheme, Authority: c.target.host, Path: c.target.prefix + procedure, UserAgent: c.userAgent(),
		Timeout: timeout, AcceptGzip: c.opts.Gzip, Metadata: c.withCredentials(ctx, header), Message: in, MaxAnswer: c.opts.maxReceive,
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
func (c *Client) exchange(ctx context.Context, req *h2.Request, answer *h2.Answer, f *facts) error {
	f.onHTTP2 = true
	for replays := 0; ; replays++ {
		err := c.attempt(ctx, req, answer, f)
		f.httpStatus, f.sendErr = answer.HTTPStatus, err
		failed := new(h2.Failure)
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		f.sendErr = failed.Cause
		f.wroteHeaders.Store(failed.Began)
		f.wroteRequest.Store(failed.Complete)
		again := failed.Unprocessed() || !failed.Began && !errors.Is(failed.Cause, h2.ErrRequestHeader)
		if !again || replays == maxReplays || !pause(ctx, replays) {
			return failed.Cause
		}
		f.again()
	}
}

// attempt makes one attempt; its error is a *h2.Failure where there was a
// connection.
func (c *Client) attempt(ctx context.Context, req *h2.Request, answer *h2.Answer, f *facts) error {
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
		if errors.Is(err, h2.ErrRequestHeader) {
			return newError(KindRequestTooLarge, tooManyFieldsText, nil)
		}
		if f.httpStatus == 0 {
			return noResponse(ctx, f)
		}
		f.overLimit = errors.Is(err, h2.ErrAnswerTooLarge)
		f.bodyErr = err
		return badResponse(ctx, nil, f)
	}()
	e.HTTPStatus, e.cause = f.httpStatus, err
	return e
}

// read tells what a complete answer of HTTP is to gRPC. The status comes first, whatever
// surrounds it: where the service says that it failed, the rest means nothing. It comes
// behind the messages, or in the header of a response without any.
func (c *Client) read(ctx context.Context, a *h2.Answer) (*Answer, *Error) {
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
func (c *Client) inflated(a *h2.Answer) ([]byte, *Error) {
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
	reader := boundedgzip.New(c.opts.maxReceive)
	if err := reader.Reset(bytes.NewReader(a.Message)); err != nil {
		return nil, garbage("not gzip: %w", err)
	}
	body, err := io.ReadAll(reader)
	switch {
	case errors.Is(err, boundedgzip.ErrOverLimit), len(body) > c.opts.maxReceive:
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
func statusOf(ctx context.Context, a *h2.Answer) *Error {
	e := grpcFailure(ctx, a.Status, a.StatusMessage, a.StatusDetails)
	if e == nil || e.Kind != KindStatus {
		return e
	}
	e.RetryAfter = retryHint(a.Trailer, a.Header)
	e.Header, e.Trailer = incoming(a.Header), incoming(a.Trailer)
	return e
}

// frameLimits are the most bytes that one frame of a stream may announce.
type frameLimits struct {
	message int64
	end     int64 // trailers of gRPC-Web, end-of-stream message of Connect
}

func (c *Client) frameLimits() frameLimits {
	return frameLimits{message: int64(c.opts.maxReceive), end: int64(c.opts.MaxHeaderBytes)}
}

// framedBody is the body of a stream. It follows the frames, which have the same
// shape in all protocols, and ends the body where one announces more than its
// limit. The RPC library has a limit too, but reads and discards such a frame to
// its end, which may be 4 GiB away.
type framedBody struct {
	io.ReadCloser
	limits frameLimits
	facts  *facts

	prefix [5]byte // flags, then the length, big-endian
	have   int     // bytes of the prefix that were seen
	left   int64   // bytes of the frame's content that were not
	over   bool
}

func newFramedBody(body io.ReadCloser, limits frameLimits, f *facts) *framedBody {
	return &framedBody{ReadCloser: body, limits: limits, facts: f}
}

// Read implements io.Reader. It passes on the data before a frame that is too large.
func (b *framedBody) Read(p []byte) (int, error) {
	if b.over {
		b.facts.overLimit = true
		return 0, errOverLimit
	}
	n, err := b.ReadCloser.Read(p)
	if good := b.follow(p[:n]); b.over {
		return good, nil
	}
	return n, err
}

// follow takes in what was read and returns how much of it may be passed on.
func (b *framedBody) follow(p []byte) int {
	for at := 0; at < len(p); {
		if b.left > 0 {
			step := min(b.left, int64(len(p)-at))
			b.left -= step
			if flags := b.prefix[0]; flags == flagWebTrailer || flags == flagConnectEnd {
				b.facts.said.tail = append(b.facts.said.tail, p[at:at+int(step)]...)
			}
			at += int(step)
			continue
		}
		step := copy(b.prefix[b.have:], p[at:])
		b.have += step
		at += step
		if b.have < len(b.prefix) {
			break
		}
		b.have = 0
		b.left = int64(binary.BigEndian.Uint32(b.prefix[1:]))
		b.facts.said.tail, b.facts.said.flags = nil, b.prefix[0]
		if b.left > b.limit() {
			b.over = true
			return at
		}
	}
	return len(p)
}

// limit is that of the frame whose prefix is complete.
func (b *framedBody) limit() int64 {
	const compressed = 1 // the one flag that a message can have
	if b.prefix[0]&^compressed != 0 {
		return b.limits.end
	}
	return b.limits.message
}

// smallFrames is a connection whose peer seems to take frames of HTTP/2 of 16 KiB only.
// Peers may allow larger ones, and net/http then keeps a buffer of that size, up to
// 512 KiB, for each open request body. Smaller frames than allowed are always valid.
//
// It follows the frames that come and replaces the value of SETTINGS_MAX_FRAME_SIZE.
//
// Where much comes at a time, it also reads more at a time than net/http does, which asks
// for 4 KiB and then for the rest of a frame.
type smallFrames struct {
	net.Conn

	buffer []byte // nil until a read has been filled
	ready  []byte // part of buffer

	header   [9]byte // of a frame
	have     int     // bytes of the header that were seen
	left     uint32  // bytes of the frame that were not
	settings bool    // it is a SETTINGS frame
	at       int     // place in a setting of 6 bytes
	id       uint16  // of that setting
}

const (
	settingsFrame    = 0x4 // RFC 9113, section 6.5
	maxFrameSizeID   = 0x5
	settingBytes     = 6
	smallestMaxFrame = 1 << 14
	// busyRead is how much a connection reads at a time on which much comes.
	busyRead = 32 << 10
)

// Read implements io.Reader.
func (c *smallFrames) Read(p []byte) (int, error) {
	if len(c.ready) == 0 && (c.buffer == nil || len(p) >= len(c.buffer)) {
		n, err := c.Conn.Read(p)
		c.follow(p[:n])
		if n == len(p) && n > len(c.header) && c.buffer == nil {
			c.buffer = make([]byte, busyRead)
		}
		return n, err
	}
	if len(c.ready) == 0 {
		n, err := c.Conn.Read(c.buffer)
		if n == 0 {
			return 0, err
		}
		c.ready = c.buffer[:n] // an error that came with it comes again
		c.follow(c.ready)
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func (c *smallFrames) follow(p []byte) {
	for len(p) > 0 {
		if c.left == 0 {
			n := copy(c.header[c.have:], p)
			c.have += n
			p = p[n:]
			if c.have < len(c.header) {
				return
			}
			c.have, c.at = 0, 0
			c.left = binary.BigEndian.Uint32(c.header[:]) >> 8
			c.settings = c.header[3] == settingsFrame
			continue
		}
		n := min(uint64(len(p)), uint64(c.left))
		if c.settings {
			c.limit(p[:n])
		}
		c.left -= uint32(n)
		p = p[n:]
	}
}

// limit replaces the value in a piece of a SETTINGS frame, byte by byte.
func (c *smallFrames) limit(p []byte) {
	for i := range p {
		switch c.at {
		case 0:
			c.id = uint16(p[i]) << 8
		case 1:
			c.id |= uint16(p[i])
		default:
			if c.id == maxFrameSizeID {
				var value [4]byte
				binary.BigEndian.PutUint32(value[:], smallestMaxFrame)
				p[i] = value[c.at-2]
			}
		}
		c.at = (c.at + 1) % settingBytes
	}
}

// errOverLimit ends a read that exceeds a size limit.
var errOverLimit = errors.New("response exceeds its size limit")

// withGzip replaces the RPC library's gzip by one that stops at the limit.
func withGzip(limit int) connect.ClientOption {
	return connect.WithAcceptCompression("gzip",
		func() connect.Decompressor { return boundedgzip.New(limit) },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) },
	)
}

// rawMessage is a message in its wire form.
type rawMessage []byte

// rawCodec passes encoded messages through as they are. It is registered under
// the name of the Protobuf codec, so that all protocols label them as such, and
// falls back to Protobuf for the RPC library's own messages (the status message
// with error details).
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (c rawCodec) Marshal(message any) ([]byte, error) {
	return c.MarshalAppend(nil, message)
}

func (rawCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case *rawMessage:
		return append(dst, *m...), nil
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(dst, m)
	default:
		return nil, fmt.Errorf("%T is neither encoded nor a Protobuf message", message)
	}
}

// Unmarshal copies data, because its buffer returns to a pool.
func (rawCodec) Unmarshal(data []byte, message any) error {
	switch m := message.(type) {
	case *rawMessage:
		*m = append((*m)[:0], data...)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, m)
	default:
		return fmt.Errorf("%T is neither encoded nor a Protobuf message", message)
	}
}
