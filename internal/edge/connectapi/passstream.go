// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/slowpeer"
)

// openStreams makes the handlers of streams. The library reads and writes their frames;
// what it would call for a method of each kind is never called.
func (p *PassThrough) openStreams() {
	s := p.service
	options := []connect.HandlerOption{
		s.bounds(), connect.WithCodec(streamProto{}), connect.WithCodec(streamJSON{codecJSON}), connect.WithCodec(streamJSON{codecJSONCharset}),
		connect.WithInterceptors(typedSpec{}, spans{s}, streamFraming{s}, typedStreams{p}),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, p any) error {
			return errmap.ToConnect(s.bridge.Panicked(p), errmap.About{})
		}),
	}
	p.client = p.supervised(connect.NewClientStreamHandler("", func(context.Context, *connect.ClientStream[message]) (*connect.Response[message], error) {
		return nil, errNoStream
	}, options...))
	p.server = p.supervised(connect.NewServerStreamHandler("", func(context.Context, *connect.Request[message], *connect.ServerStream[message]) error {
		return errNoStream
	}, options...))
	p.duplex = p.supervised(connect.NewBidiStreamHandler("", func(context.Context, *connect.BidiStream[message, message]) error {
		return errNoStream
	}, options...))
}

// errNoStream is of a stream that its interceptor did not serve.
var errNoStream = errors.New("connectapi: the stream was not served")

// stream is the handler of a tool's kind of streams.
func (p *PassThrough) stream(tool *catalog.Tool) http.Handler {
	switch m := tool.Method; {
	case m.ClientStreaming && m.ServerStreaming:
		return p.duplex
	case m.ClientStreaming:
		return p.client
	default:
		return p.server
	}
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

// supervised gives a stream a reader in its context, as [Service.watched] does.
func (p *PassThrough) supervised(next http.Handler) http.Handler {
	s := p.service
	return s.counted(true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rd := &reader{control: http.NewResponseController(w), answer: slowpeer.Of(w), writeTimeout: s.opts.WriteTimeout}
		if rd.answer == nil {
			rd.timer = time.AfterFunc(rd.writeTimeout, rd.giveUp)
			rd.timer.Stop()
		}
		if r.ProtoMajor == 1 {
			// A backend may answer before the caller's last message, and net/http would
			// take the rest of the request from its reader. Where it cannot be told, the
			// stream ends there.
			_ = rd.control.EnableFullDuplex()
		}
		defer rd.leave()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), readerKey{}, rd)))
	}))
}

// typedSpec names the procedure of a stream, which its handler serves for all.
type typedSpec struct{}

// WrapUnary implements [connect.Interceptor].
func (typedSpec) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements [connect.Interceptor].
func (typedSpec) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (typedSpec) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		procedure, _ := ctx.Value(procedureKey{}).(string)
		return next(ctx, namedConn{conn, procedure})
	}
}

// namedConn is a stream that knows its procedure.
type namedConn struct {
	connect.StreamingHandlerConn

	procedure string
}

// Spec implements [connect.StreamingHandlerConn].
func (c namedConn) Spec() connect.Spec {
	spec := c.StreamingHandlerConn.Spec()
	spec.Procedure = c.procedure
	return spec
}

// typedStreams serves streams in place of the library's functions.
type typedStreams struct{ pass *PassThrough }

// WrapUnary implements [connect.Interceptor].
func (typedStreams) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements [connect.Interceptor].
func (typedStreams) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (i typedStreams) WrapStreamingHandler(connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return i.pass.exchange
}

// exchange runs one stream, which is one call.
func (p *PassThrough) exchange(ctx context.Context, conn connect.StreamingHandlerConn) error {
	x := &typedExchange{conn: conn, reader: readerOf(ctx), encoding: bridge.EncodingProtobuf}
	ctx, release, end := releasable(ctx)
	defer end()
	x.release = release
	if strings.Contains(conn.RequestHeader().Get("Content-Type"), "+json") {
		x.encoding = bridge.EncodingJSON
	}
	streamOf(ctx).opened()
	peer, protocol, procedure := conn.Peer().Addr, conn.Peer().Protocol, conn.Spec().Procedure
	resp := p.service.run(ctx, &bridge.Request{
		Op:        bridge.OpCall,
		Origin:    p.service.bridge.Flights().NewOrigin(),
		Procedure: procedure,
		Arguments: bridge.Payload{Encoding: x.encoding},
		Exchange:  x,
		Timeout:   timeLeft(ctx),
		Header:    conn.RequestHeader(),
		Caller:    bridge.CallerOf(ctx, peer),
		Peer:      peer,
		Transport: protocol,
		Route:     procedure,
	})
	x.reader.waitFor() // for the end of the stream
	if resp.Err == nil {
		copyHeader(conn.ResponseHeader(), resp.Header)
		copyHeader(conn.ResponseTrailer(), resp.Trailer)
		return nil
	}
	if x.framing != nil {
		return x.framing // in the words of the protocol, under the library's code
	}
	return p.typedError(ctx, protocol, resp)
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

// Receive implements [bridge.Exchange].
func (x *typedExchange) Receive() (bridge.Payload, error) {
	if cap(x.in.Bytes) > mostPlain {
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

// streamProto is protoCodec for streams. It copies messages, which belong to their
// sender, and reads them into memory that the receiver uses again.
type streamProto struct{ protoCodec }

// MarshalAppend lets the library use its own buffers.
func (c streamProto) MarshalAppend(dst []byte, v any) ([]byte, error) {
	return appendMarshalled(dst, v, c.protoCodec)
}

// Unmarshal copies the bytes.
func (c streamProto) Unmarshal(data []byte, v any) error {
	return unmarshalInto(data, v, bridge.EncodingProtobuf, c.protoCodec)
}

// streamJSON is jsonCodec for streams.
type streamJSON struct{ jsonCodec }

// MarshalAppend lets the library use its own buffers.
func (c streamJSON) MarshalAppend(dst []byte, v any) ([]byte, error) {
	return appendMarshalled(dst, v, c.jsonCodec)
}

// Unmarshal copies the bytes.
func (c streamJSON) Unmarshal(data []byte, v any) error {
	return unmarshalInto(data, v, bridge.EncodingJSON, c.jsonCodec)
}

func appendMarshalled(dst []byte, v any, codec connect.Codec) ([]byte, error) {
	raw, err := codec.Marshal(v)
	return append(dst, raw...), err
}

func unmarshalInto(data []byte, v any, encoding bridge.Encoding, codec connect.Codec) error {
	m, ok := v.(*message)
	if !ok {
		return codec.Unmarshal(data, v)
	}
	m.Encoding = encoding
	m.Bytes = append(m.Bytes[:0], data...)
	return nil
}
