// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpshutdown"
)

// headerTimeout ends connections that never finish their request headers.
const headerTimeout = 5 * time.Second

type options struct {
	listen       string
	delay, grace time.Duration
}

// serve listens until ctx ends, and then lets the calls in flight end.
func serve(ctx context.Context, opts options, journal *journal) error {
	journal.write(line{Event: "started"})
	select {
	case <-time.After(opts.delay):
	case <-ctx.Done():
		return nil
	}
	handler, err := demo.Handler(demo.Options{})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	listener, err := listen(ctx, opts.listen)
	if err != nil {
		return err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: journal.around(handler), Protocols: protocols, ReadHeaderTimeout: headerTimeout,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: demo.DefaultMaxConcurrentStreams},
	}
	journal.write(line{Event: "listening", Address: listener.Addr().String()})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	journal.write(line{Event: "ending"})
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), opts.grace)
	defer cancel()
	err = httpshutdown.Shutdown(ending, server)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(fmt.Errorf("calls were still in flight after %s: %w", opts.grace, err), server.Close())
	}
	if serving := <-served; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	journal.write(line{Event: "ended"})
	return err
}

// listen opens a loopback port or a Unix socket. Any client of the service may
// use it, so it is not offered to other machines.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		listener, err := config.Listen(ctx, "unix", path)
		if err != nil {
			return nil, fmt.Errorf("-listen: %w", err)
		}
		return listener, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w; write host:port or unix:///path", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("-listen: %q is not a loopback address; this example does not authenticate callers", host)
	}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	return listener, nil
}
