// SPDX-License-Identifier: Apache-2.0

// Package inprocess serves an HTTP handler to clients in the same process, over
// connections in memory: no port is opened, and nothing outside can reach it.
package inprocess

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/loglimit"
)

// readHeaderTimeout bounds the headers of a request: the client is this process, so
// that one which takes longer has stopped.
const readHeaderTimeout = time.Minute

// Server serves one handler over HTTP/1.1 and HTTP/2 without TLS. Make one with
// [New]; its methods are safe for concurrent use.
type Server struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	served sync.WaitGroup
}

// New serves a handler until [Server.Close].
func New(handler http.Handler, log *zap.Logger) *Server {
	s := &Server{conns: make(chan net.Conn), closed: make(chan struct{})}
	s.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, Protocols: new(http.Protocols),
		ErrorLog: zap.NewStdLog(loglimit.New(log)),
	}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	s.served.Go(func() { _ = s.server.Serve((*listener)(s)) })
	return s
}

// Dial connects to the server, whatever the address.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return mine, nil
	case <-s.closed:
		return nil, errors.Join(errClosed, mine.Close(), theirs.Close())
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), mine.Close(), theirs.Close())
	}
}

// errClosed is the end of connections that are made too late.
var errClosed = errors.New("inprocess: the server is closed")

// Close ends the server with all its connections, and waits for it. Requests in
// flight are cut off.
func (s *Server) Close() error {
	s.once.Do(func() { close(s.closed) })
	err := s.server.Close()
	s.served.Wait()
	return err
}

// listener is the server as net/http accepts its connections.
type listener Server

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return address{} }

// address is the address of a server that has none.
type address struct{}

// Network implements [net.Addr].
func (address) Network() string { return "memory" }

// String implements [net.Addr].
func (address) String() string { return "in-process" }
