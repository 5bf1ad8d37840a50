// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// PassThrough serves /<backend service>/<method>: a caller's generated client calls
// the backend through the same pipeline as every other caller. Protobuf stays
// Protobuf; Connect's JSON codec takes the path of JSON arguments. Paths that are not
// tools are passed to the next handler.
//
// The catalog determines the existing procedures for each call. One handler serves
// them all, and keeps nothing about a procedure that was removed.
type PassThrough struct {
	service *Service
	unary   http.Handler
	// reading is unary for methods without side effects, which Connect also calls by GET.
	reading http.Handler
	// client, server and duplex serve the kinds of streams.
	client, server, duplex http.Handler
	next                   http.Handler
}

// PassThrough returns the handler. Paths that are not tools are passed to next.
func (s *Service) PassThrough(next http.Handler) *PassThrough {
	p := &PassThrough{service: s, next: next}
	// A stream is served by the interceptor: what the library would call for a method of each kind is never called.
	options := func(isStream bool) []connect.HandlerOption {
		out := s.handlerOptions(interceptor{service: s, stream: p.exchange})
		for _, codec := range []typedCodec{{codecProto, bridge.EncodingProtobuf, isStream}, {codecJSON, bridge.EncodingJSON, isStream}, {codecJSONCharset, bridge.EncodingJSON, isStream}, {codecJSONUTF8, bridge.EncodingJSON, isStream}} {
			out = append(out, connect.WithCodec(codec))
		}
		return out
	}
	unary, stream := options(false), options(true)
	p.unary = s.front(true, false, connect.NewUnaryHandler("", p.call, unary...))
	p.reading = s.front(true, false, connect.NewUnaryHandler("", p.call, append(unary, connect.WithIdempotency(connect.IdempotencyNoSideEffects))...))
	p.client = s.front(true, true, connect.NewClientStreamHandler("", func(context.Context, *connect.ClientStream[message]) (*connect.Response[message], error) {
		return nil, errNoStream
	}, stream...))
	p.server = s.front(true, true, connect.NewServerStreamHandler("", func(context.Context, *connect.Request[message], *connect.ServerStream[message]) error {
		return errNoStream
	}, stream...))
	p.duplex = s.front(true, true, connect.NewBidiStreamHandler("", func(context.Context, *connect.BidiStream[message, message]) error {
		return errNoStream
	}, stream...))
	return p
}

// errNoStream is of a stream that its interceptor did not serve.
var errNoStream = errors.New("connectapi: the stream was not served")

// ServeHTTP implements http.Handler.
func (p *PassThrough) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cat := p.service.bridge.Catalogs().Current()
	if cat == nil {
		p.next.ServeHTTP(w, r)
		return
	}
	tool, ok := cat.ByProcedure(r.URL.Path)
	if !ok {
		p.next.ServeHTTP(w, r)
		return
	}
	p.handler(tool).ServeHTTP(w, r)
}

// handler serves methods of a tool's kind.
func (p *PassThrough) handler(tool *catalog.Tool) http.Handler {
	switch m := tool.Method; {
	case m.ClientStreaming && m.ServerStreaming:
		return p.duplex
	case m.ClientStreaming:
		return p.client
	case m.ServerStreaming:
		return p.server
	case hasNoSideEffects(tool):
		return p.reading
	default:
		return p.unary
	}
}

// hasNoSideEffects holds for methods that say so themselves (idempotency_level). What an overlay says of a tool does not
// count: generated clients know only the descriptor, and so do the caches between them and the sidecar.
func hasNoSideEffects(tool *catalog.Tool) bool {
	options, ok := tool.Method.Descriptor.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// call runs one typed call.
func (p *PassThrough) call(ctx context.Context, req *connect.Request[message]) (*connect.Response[message], error) {
	r := rpcOf(req)
	r.procedure = servedOf(ctx).procedure
	arguments := received(req)
	if failed := p.tooDeep(arguments); failed != nil {
		return nil, p.service.refusedTyped(ctx, r, failed)
	}
	call, failed := p.request(ctx, r)
	if failed != nil {
		return nil, p.service.refusedTyped(ctx, r, failed)
	}
	call.Arguments = arguments
	resp := p.service.run(ctx, call)
	if resp.Err != nil {
		return nil, p.typedError(ctx, r.protocol, resp)
	}
	servedOf(ctx).attribute(resp)
	result := message(resp.Result)
	out := connect.NewResponse(&result)
	copyHeader(out.Header(), resp.Header)
	copyHeader(out.Trailer(), resp.Trailer)
	return out, nil
}

// request is the neutral form of a typed call.
func (p *PassThrough) request(ctx context.Context, r *rpc) (*bridge.Request, *errmap.Error) {
	wanted, failed := content.ReadWantedHeader(r.header)
	if failed != nil {
		return nil, failed
	}
	out := r.request(ctx)
	out.Op, out.Origin, out.Procedure, out.Timeout, out.Wanted = bridge.OpCall, p.service.bridge.Flights().NewOrigin(), r.procedure, timeLeft(ctx), wanted
	return out, nil
}

// typedError is what a caller of the backend's own method is shown: a status of the backend as it came, and otherwise that of
// [connectError]. Connect has a word for each code, and no numbers: a number that only gRPC has is unknown there, and is in
// the details of a redacted error.
func (p *PassThrough) typedError(ctx context.Context, protocol string, resp *bridge.Response) *connect.Error {
	if own := resp.BackendStatus(); own != nil && !p.service.opts.RedactTyped {
		servedOf(ctx).asItCame = true
		if protocol == connect.ProtocolConnect && resp.Err.BackendStatus != 0 {
			own = withCode(connect.CodeUnknown, own)
		}
		copyHeader(own.Meta(), resp.Header)
		copyHeader(own.Meta(), resp.Trailer)
		return own
	}
	err := connectError(resp)
	if status := resp.Err.BackendStatus; status != 0 && protocol != connect.ProtocolConnect {
		return withCode(connect.Code(status), err)
	}
	return err
}

// tooDeep refuses JSON that is nested deeper than the limit of all messages, where
// that is below the one that arguments have anyway.
func (p *PassThrough) tooDeep(m bridge.Payload) *errmap.Error {
	limits := p.service.opts.Limits
	if m.Encoding != bridge.EncodingJSON || limits.MaxDepth >= defaults.MaxJSONDepth {
		return nil
	}
	// Whatever else is wrong with it is found, and better told, with the schema.
	if f := jsonrpc.Check(m.Bytes, limits); f != nil && f.Over == jsonrpc.OverDepth {
		return dialect.FaultError(f)
	}
	return nil
}

// received is the message that came. The gRPC protocols do not hand an empty one
// to the codec, so that only the content type says how it was encoded.
func received(req *connect.Request[message]) bridge.Payload {
	if req.Msg.Bytes == nil && !strings.Contains(req.Header().Get("Content-Type"), "+json") {
		return bridge.Payload{Encoding: bridge.EncodingProtobuf, Bytes: []byte{}}
	}
	return bridge.Payload(*req.Msg)
}

// IsStream reports whether the body of a request lasts as long as a stream of the typed
// pass-through.
func (s *Service) IsStream(r *http.Request) bool {
	cat := s.bridge.Catalogs().Current()
	if cat == nil {
		return false
	}
	tool, ok := cat.ByProcedure(r.URL.Path)
	return ok && tool.Method.ClientStreaming
}

// exchange runs one stream, which is one call.
func (p *PassThrough) exchange(ctx context.Context, conn connect.StreamingHandlerConn) error {
	r := rpcOfStream(conn)
	call, failed := p.request(ctx, r)
	if failed != nil {
		return p.service.refusedTyped(ctx, r, failed)
	}
	x := &typedExchange{conn: conn, reader: servedOf(ctx).reader, encoding: bridge.EncodingProtobuf}
	ctx, release, end := releasable(ctx)
	defer end()
	x.release = release
	if strings.Contains(conn.RequestHeader().Get("Content-Type"), "+json") {
		x.encoding = bridge.EncodingJSON
	}
	servedOf(ctx).span.opened()
	call.Arguments, call.Exchange = bridge.Payload{Encoding: x.encoding}, x
	resp := p.service.run(ctx, call)
	x.reader.waitFor() // for the end of the stream
	if resp.Err == nil {
		copyHeader(conn.ResponseHeader(), resp.Header)
		copyHeader(conn.ResponseTrailer(), resp.Trailer)
		return nil
	}
	if x.framing != nil {
		return x.framing // in the words of the protocol, under the library's code
	}
	return p.typedError(ctx, conn.Peer().Protocol, resp)
}

// typedExchange is the caller's side of a stream.
type typedExchange struct {
	conn     connect.StreamingHandlerConn
	reader   *reader
	encoding bridge.Encoding
	release  func()  // see releasable
	in       message // of the last Receive
	// framing is what was wrong with the frames of a message. It is the receiver's until
	// the call has ended.
	framing error
	// ended: the request has been read to its end.
	ended atomic.Bool
}

// mostReused is how large a buffer may be that a stream keeps for its next message.
const mostReused = 64 << 10

// Receive implements [bridge.Exchange].
func (x *typedExchange) Receive() (bridge.Payload, error) {
	if cap(x.in.Bytes) > mostReused {
		x.in.Bytes = nil
	}
	// The library leaves the message alone where the next one is empty.
	x.in.Encoding, x.in.Bytes = x.encoding, x.in.Bytes[:0]
	err := x.conn.Receive(&x.in)
	switch {
	case err == nil:
		return bridge.Payload(x.in), nil
	case errors.Is(err, io.EOF):
		x.ended.Store(true)
		return bridge.Payload{}, io.EOF
	}
	if failed := new(connect.Error); errors.As(err, &failed) && len(failed.Details()) > 0 {
		x.framing = failed
		return bridge.Payload{}, errmap.FromConnect(failed)
	}
	return bridge.Payload{}, err
}

// Begin implements [bridge.Exchange].
func (x *typedExchange) Begin(header http.Header) error {
	copyHeader(x.conn.ResponseHeader(), header)
	return x.write(nil)
}

// Send implements [bridge.Exchange].
func (x *typedExchange) Send(m []byte) error {
	return x.write(&message{Encoding: x.encoding, Bytes: m})
}

func (x *typedExchange) write(m any) error {
	x.reader.waitFor()
	defer x.reader.took()
	return x.conn.Send(m)
}

// Stop implements [bridge.Exchange].
func (x *typedExchange) Stop() {
	x.release()
	if !x.ended.Load() {
		x.reader.stopReading()
	}
}

// releasable is a context that ends with its parent until it is released, and with the
// parent's deadline. A wait for the caller's next message ends by a deadline, and on
// HTTP/1.1 that ends the request's context, too, if the last message came just now: a call
// that has worked would count as one whose caller has gone.
func releasable(parent context.Context) (ctx context.Context, release, end func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	forget := context.AfterFunc(parent, func() {
		if !errors.Is(parent.Err(), context.DeadlineExceeded) {
			cancel(context.Cause(parent))
		}
	})
	stop := func() {}
	if deadline, ok := parent.Deadline(); ok {
		ctx, stop = context.WithDeadline(ctx, deadline)
	}
	return ctx, func() { forget() }, func() {
		forget()
		stop()
		cancel(nil)
	}
}

// message is what a pass-through handler sends and receives: encoded bytes and
// the encoding that they came in.
type message bridge.Payload

// typedCodec passes encoded messages through. It encodes and decodes Protobuf messages as ever: gRPC sends the status of a failed
// call, details included, with the handler's own codec.
type typedCodec struct {
	name     string // in content types
	encoding bridge.Encoding
	// isStream copies messages, which belong to their sender, and reads them into memory that the receiver uses again. Otherwise
	// the library may keep the memory of a message.
	isStream bool
}

// Name implements [connect.Codec].
func (c typedCodec) Name() string { return c.name }

// Marshal implements [connect.Codec].
func (c typedCodec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend lets the library use its own buffers.
func (c typedCodec) MarshalAppend(dst []byte, v any) ([]byte, error) {
	switch m := v.(type) {
	case *message:
		if m.Encoding != c.encoding {
			return nil, fmt.Errorf("pass-through codec: result has encoding %d, want %d", m.Encoding, c.encoding)
		}
		if !c.isStream {
			return m.Bytes, nil
		}
		return append(dst, m.Bytes...), nil
	case proto.Message:
		if c.encoding == bridge.EncodingProtobuf {
			return proto.MarshalOptions{}.MarshalAppend(dst, m)
		}
	}
	return nil, fmt.Errorf("pass-through codec: cannot marshal %T", v)
}

// Unmarshal copies the bytes, because the buffer that holds them is reused.
func (c typedCodec) Unmarshal(data []byte, v any) error {
	switch m := v.(type) {
	case *message:
		m.Encoding = c.encoding
		m.Bytes = append(m.Bytes[:0], data...)
		if m.Bytes == nil {
			m.Bytes = []byte{}
		}
		return nil
	case proto.Message:
		if c.encoding == bridge.EncodingProtobuf {
			return proto.Unmarshal(data, m)
		}
	}
	return fmt.Errorf("pass-through codec: cannot unmarshal into %T", v)
}
