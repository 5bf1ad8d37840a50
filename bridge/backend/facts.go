// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
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
	conn         atomic.Pointer[conn] // nil also with TLS, where the first bytes tell nothing

	onHTTP2    bool  // the pool that was used
	sendErr    error // what the transport returned instead of a response
	httpStatus int   // 0 while no response came
	bodyErr    error // a failed read of the response body, end of body aside
	overLimit  bool  // the response body ran past its limit
}

type factsKey struct{}

func (f *facts) attach(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, factsKey{}, f)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      f.gotConn,
		WroteHeaders: f.sentHeaders,
	})
}

func factsFrom(ctx context.Context) *facts {
	f, _ := ctx.Value(factsKey{}).(*facts)
	return f
}

func (f *facts) sentHeaders() { f.wroteHeaders.Store(true) }

func (f *facts) gotConn(info httptrace.GotConnInfo) {
	f.connected.Store(true)
	if c, ok := info.Conn.(*conn); ok {
		f.conn.Store(c)
	}
}
