// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/h2"
	"github.com/valyala/fasthttp"
)

// Floors are empty proxies as the one of RoleProxy, of other parts. They show what each part of it costs.
const (
	// FloorClient is net/http in front of the sidecar's own client for unary gRPC calls.
	FloorClient = "floor-client"
	// FloorBoth is fasthttp in front of that client.
	FloorBoth = "floor-both"
)

// serveFloor serves one of the floors. It has one connection to the backend, which carries what 100 callers send.
func serveFloor(ctx context.Context, stdout io.Writer, kind, backend, method string) error {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", backend)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	conn := h2.NewClient(raw, h2.ClientOptions{
		MaxHeaderBytes: 64 << 10, PingAfter: time.Minute, PingTimeout: time.Minute, QuietAfter: time.Minute, SuspectAfter: time.Minute,
		WriteTimeout: time.Minute, Changed: func() {},
	})
	defer func() { _ = conn.Close() }()
	invoke := func(ctx context.Context, message []byte) ([]byte, error) {
		var answer h2.Answer
		if err := conn.Do(ctx, &h2.Request{
			Scheme: "http", Authority: backend, Path: method, UserAgent: "floor", Message: message, MaxAnswer: maxMessage,
		}, &answer); err != nil {
			return nil, err
		}
		if answer.Status != "0" {
			return nil, errors.New("grpc-status " + answer.Status + ": " + answer.StatusMessage)
		}
		return answer.Message, nil
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	serve, stop := plainFloor(invoke)
	if kind == FloorBoth {
		serve, stop = fastFloor(ctx, invoke)
	}
	defer context.AfterFunc(ctx, stop)()
	if err := announce(stdout, listener.Addr()); err != nil {
		return err
	}
	if err := serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}

func plainFloor(invoke invoker) (serve func(net.Listener) error, stop func()) {
	server := &http.Server{Handler: forward(invoke), ReadHeaderTimeout: time.Minute}
	return server.Serve, func() { _ = server.Close() }
}

func fastFloor(ctx context.Context, invoke invoker) (serve func(net.Listener) error, stop func()) {
	server := &fasthttp.Server{MaxRequestBodySize: maxMessage, ReadTimeout: time.Minute, Handler: func(r *fasthttp.RequestCtx) {
		// fasthttp's own context ends with the server, and takes a lock for that.
		answer, err := invoke(ctx, r.PostBody())
		if err != nil {
			r.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		r.SetContentType("application/octet-stream")
		r.Response.SetBodyRaw(answer)
	}}
	return server.Serve, func() { _ = server.Shutdown() }
}
