// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// readHeaderTimeout bounds the headers of a request: the client is this process, so
// that one which takes longer has stopped.
const readHeaderTimeout = time.Minute

// InProcess serves one handler over HTTP/1.1 and HTTP/2 without TLS. Make one with
// [NewInProcess]; its methods are safe for concurrent use.
type InProcess struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	served sync.WaitGroup
}

// NewInProcess serves a handler until [InProcess.Close].
func NewInProcess(handler http.Handler, log *zap.Logger) *InProcess {
	s := &InProcess{conns: make(chan net.Conn), closed: make(chan struct{})}
	s.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, Protocols: new(http.Protocols),
		ErrorLog: zap.NewStdLog(loglimit.New(log)),
	}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	s.served.Go(func() { _ = s.server.Serve((*inProcessListener)(s)) })
	return s
}

// Dial connects to the server, whatever the address.
func (s *InProcess) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return mine, nil
	case <-s.closed:
		return nil, errors.Join(errInProcessClosed, mine.Close(), theirs.Close())
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), mine.Close(), theirs.Close())
	}
}

// errInProcessClosed is the end of connections that are made too late.
var errInProcessClosed = errors.New("inprocess: the server is closed")

// Close ends the server with all its connections, and waits for it. Requests in
// flight are cut off.
func (s *InProcess) Close() error {
	s.once.Do(func() { close(s.closed) })
	err := s.server.Close()
	s.served.Wait()
	return err
}

// inProcessListener is the server as a [net.Listener].
type inProcessListener InProcess

// Accept implements [net.Listener].
func (l *inProcessListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *inProcessListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *inProcessListener) Addr() net.Addr { return inProcessAddr{} }

// inProcessAddr is the address of a server that has none.
type inProcessAddr struct{}

// Network implements [net.Addr].
func (inProcessAddr) Network() string { return "memory" }

// String implements [net.Addr].
func (inProcessAddr) String() string { return "in-process" }
