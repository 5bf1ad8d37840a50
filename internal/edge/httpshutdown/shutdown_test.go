// SPDX-License-Identifier: Apache-2.0

package httpshutdown_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/internal/edge/httpshutdown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns a server with HTTP/2, its address, and a channel that is closed when it has ended.
func serve(t *testing.T, handler http.HandlerFunc) (server *http.Server, address string, served chan struct{}) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served = make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	return server, listener.Addr().String(), served
}

func client() *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: p}}
}

// The hooks of a shutdown, by which net/http tells its HTTP/2 connections, run again while one is left.
func TestConnectionsAreToldAgain(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	server, address, served := serve(t, func(http.ResponseWriter, *http.Request) { close(entered); <-release })
	told := make(chan struct{}, 8)
	server.RegisterOnShutdown(func() {
		told <- struct{}{}
		if len(told) == 2 {
			close(release)
		}
	})
	c := client()
	defer c.CloseIdleConnections()
	answered := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address, http.NoBody)
		if err != nil {
			answered <- err
			return
		}
		res, err := c.Do(req)
		if err == nil {
			err = res.Body.Close()
		}
		answered <- err
	}()
	<-entered
	if err := httpshutdown.Shutdown(t.Context(), server); err != nil {
		t.Error(err)
	}
	<-served
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if len(told) < 2 {
		t.Errorf("told %d times", len(told))
	}
}

func TestTheCallersTimeCounts(t *testing.T) {
	t.Parallel()
	server, _, served := serve(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := httpshutdown.Shutdown(ctx, server); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-served
}
