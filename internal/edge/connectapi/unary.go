// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/slowpeer"
)

// The RPC library costs a small unary call more than the call itself: it reads a second
// message to see that there is none, makes half a dozen maps of headers, and takes every
// message through reflection. Requests that are plain are read and answered here, and
// everything else goes to the library: other protocols, compression on either side, headers
// that are wrong, bodies that are large or not as they should be. So what is refused is
// refused by one reader, and what is answered here is little.

// mostPlain is how large a message may be that is read here. Beyond it, the library costs
// little beside the message.
const mostPlain = 64 << 10

// unaryCall runs one call whose message has been read, and returns its answer's message.
type unaryCall func(ctx context.Context, r *rpc, body []byte, isJSON bool) (*unaryAnswer, error)

// unaryAnswer is an answer that went well.
type unaryAnswer struct {
	resp *bridge.Response
	// appendTo appends the message to a buffer.
	appendTo func(dst []byte, resp *bridge.Response) ([]byte, error)
}

// unary is a handler of unary methods in front of the library's.
type unary struct {
	service *Service
	call    unaryCall
	// procedure is the method, "" for the path of the request.
	procedure string
	next      http.Handler
}

// ServeHTTP implements [http.Handler].
func (u *unary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var way wireFormat
	var timeout time.Duration
	if !way.read(r) || !readTimeout(&timeout, r.Header, &way) {
		u.next.ServeHTTP(w, attributed(w, r))
		return
	}
	body, consumed, err := way.message(r, u.service.opts.Limits.MaxBytes)
	if body == nil {
		replay(r, consumed, err)
		u.next.ServeHTTP(w, attributed(w, r))
		return
	}
	ctx := r.Context()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	u.answer(ctx, w, r, &way, body)
}

// answer runs the call and writes what comes of it.
func (u *unary) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, way *wireFormat, body []byte) {
	procedure := u.procedure
	if procedure == "" {
		procedure = r.URL.Path
	}
	r.Header["Host"] = []string{r.Host} // as the library shows it
	out, err := u.run(ctx, &rpc{header: r.Header, peer: r.RemoteAddr, protocol: way.protocol, procedure: procedure}, body, way.isJSON)
	way.begin(w.Header())
	if err != nil {
		u.service.toldWhy(r, err)
		way.writeError(w, r, err)
		return
	}
	message, err := out.appendTo(way.prefix(), out.resp)
	if err != nil {
		way.writeError(w, r, connect.NewError(connect.CodeInternal, errors.New("the result cannot be encoded")))
		return
	}
	if len(message) > slowpeer.LeastCounted && out.resp.Tool != nil {
		slowpeer.Of(w).SetTool(out.resp.Tool.Name)
	}
	way.write(w, message, out.resp)
}

// answerKey is the context key of the writer of a response that the library writes.
type answerKey struct{}

// attributed gives the library's handlers the writer of their response.
func attributed(w http.ResponseWriter, r *http.Request) *http.Request {
	if answer := slowpeer.Of(w); answer != nil {
		return r.WithContext(context.WithValue(r.Context(), answerKey{}, answer))
	}
	return r
}

// attribute counts a response that the library writes for the tool whose result it is.
func attribute(ctx context.Context, resp *bridge.Response) {
	if answer, ok := ctx.Value(answerKey{}).(*slowpeer.Writer); ok && resp.Tool != nil {
		answer.SetTool(resp.Tool.Name)
	}
}

// run is the call, with a panic made an error.
func (u *unary) run(ctx context.Context, r *rpc, body []byte, isJSON bool) (out *unaryAnswer, err error) {
	defer func() {
		p := recover()
		if p == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			panic(p) //nolint:forbidigo // net/http ends the connection, as the handler wants
		}
		if p != nil {
			err = errmap.ToConnect(u.service.bridge.Panicked(p), errmap.About{})
		}
	}()
	return u.call(ctx, r, body, isJSON)
}

// replay gives a request its body back, of which a part has been read; err is what came
// behind that, nil for more.
func replay(r *http.Request, consumed []byte, err error) {
	if len(consumed) == 0 && err == nil {
		return
	}
	r.Body = &replayed{ReadCloser: r.Body, first: bytes.NewReader(consumed), err: err}
}

// replayed is a body that begins with what has been read of it.
type replayed struct {
	io.ReadCloser

	first *bytes.Reader
	err   error
}

// Read implements [io.Reader].
func (b *replayed) Read(p []byte) (int, error) {
	switch {
	case b.first.Len() > 0:
		return b.first.Read(p)
	case b.err != nil:
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}
