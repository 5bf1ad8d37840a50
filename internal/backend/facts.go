// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"sync/atomic"
)

// facts is what one call's HTTP exchange showed, beside the error that the RPC
// library makes of it. The trace hooks run on goroutines of the transport and
// may outlive the call, so what they set is atomic; the rest is set and read by
// the calling goroutine.
type facts struct {
	connected    atomic.Bool
	wroteHeaders atomic.Bool
	wroteRequest atomic.Bool // to the end, without an error
	conn         atomic.Pointer[conn]
	encrypted    atomic.Bool // conn is below TLS: its bytes tell nothing

	stream     bool      // asked for by the call: the body is bounded frame by frame
	send       *sendBody // of a stream that was opened; what Do sends in place of the library's
	onHTTP2    bool      // the pool that was used
	sendErr    error     // what the transport returned instead of a response
	httpStatus int       // 0 while no response came
	hangsUp    bool      // the response says that the connection is closed (HTTP/1.1)
	bodyErr    error     // a failed read of the response body, end of body aside
	said       said      // what the peer said of the call itself
	foreign    bool      // the response is of no RPC protocol
	overLimit  bool      // the response body, or a frame of it, ran past its limit
}

type factsKey struct{}

func (f *facts) attach(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, factsKey{}, f)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      f.gotConn,
		WroteHeaders: f.sentHeaders,
		WroteRequest: f.sentRequest,
	})
}

func factsFrom(ctx context.Context) *facts {
	f, _ := ctx.Value(factsKey{}).(*facts)
	return f
}

func (f *facts) sentHeaders() { f.wroteHeaders.Store(true) }

func (f *facts) sentRequest(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		f.wroteRequest.Store(true)
	}
}

// gotConn is a hook of HTTP/1.1 alone; on HTTP/2 the pool is ours.
func (f *facts) gotConn(info httptrace.GotConnInfo) {
	f.connected.Store(true)
	switch c := info.Conn.(type) {
	case *conn:
		f.conn.Store(c)
	case *tls.Conn:
		f.encrypted.Store(true)
		if inner, ok := c.NetConn().(*conn); ok {
			f.conn.Store(inner)
		}
	}
}

// again forgets what an attempt showed that is about to be repeated.
func (f *facts) again() {
	f.wroteHeaders.Store(false)
	f.wroteRequest.Store(false)
}

// greeted is how the peer began, as far as that could be seen.
func (f *facts) greeted() greeting {
	if f.encrypted.Load() {
		return greetNothing
	}
	return f.conn.Load().greeted()
}

// began reports whether any part of the request may have left.
func (f *facts) began() bool { return f.wroteHeaders.Load() }

// complete reports whether the whole request may have left. It has a meaning
// only after the transport returned an error that is not the context's: a unary
// method does not run on part of a request, so an incomplete one had no effect.
//
// On HTTP/2 the transport returns once the writing of the request has ended, and
// the hook ran where it ended well. On HTTP/1.1 the hook runs before the last
// flush, but the connection carries one request at a time, so a failed write is
// this request's.
func (f *facts) complete() bool {
	switch {
	case !f.began():
		return false
	case f.send != nil:
		return true // each message of it may have had its effect
	case f.onHTTP2:
		return f.wroteRequest.Load()
	default:
		return !f.conn.Load().failedToWrite()
	}
}
