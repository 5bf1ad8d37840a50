// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/httpshutdown"
)

const (
	// headerTimeout ends connections that never finish their request headers. Loopback callers need milliseconds.
	headerTimeout = 5 * time.Second
	// idleTimeout ends idle connections, long after any pause between an agent's calls.
	idleTimeout = 5 * time.Minute
	// maxHeaderBytes leaves room for large tokens and baggage, and none for abuse.
	maxHeaderBytes = 64 << 10
)

// ErrNotLoopback tells that the service was asked to listen where other machines could reach it.
var ErrNotLoopback = errors.New("the demo service listens on loopback addresses only")

// Server is a running demo service. Its owner closes it.
type Server struct {
	url      string
	http     *http.Server
	stop     func() // ends streams that would not end by themselves
	serveErr error  // written before done is closed
	done     chan struct{}
}

// Start listens and serves until Close. The context bounds the start only, so that a caller can still finish its calls
// after its own context has ended. Start returns once connections are accepted. Errors: ErrNotLoopback, or a *net.OpError.
func Start(ctx context.Context, opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := checkLoopback(opts.Addr); err != nil {
		return nil, err
	}
	stopping := make(chan struct{})
	stop := sync.OnceFunc(func() { close(stopping) })
	handler, err := newHandler(opts, stopping)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("demo: listen: %w", err)
	}

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{
		url: "http://" + listener.Addr().String(),
		http: &http.Server{
			Handler:           guard(handler),
			Protocols:         protocols,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: opts.MaxConcurrentStreams},
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
		},
		stop: stop,
		done: make(chan struct{}),
	}
	// Without a log of its own, http.Server would write to the process's stderr.
	if errorLog, err := zap.NewStdLogAt(opts.Logger, zap.WarnLevel); err == nil {
		s.http.ErrorLog = errorLog
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.serveErr = fmt.Errorf("demo: serve: %w", err)
		}
	}()
	return s, nil
}

// URL returns where the service listens, "http://127.0.0.1:port".
func (s *Server) URL() string { return s.url }

// Close stops accepting, ends watching streams and lets other calls finish. When ctx ends first, it cuts the connections,
// which cancels what is still running, and returns the context's error. Closing twice is harmless.
//
// An idle HTTP/2 connection holds Close up for one second, the grace that net/http gives its peer to hang up. A caller in
// the same process hangs up first (http.Transport.CloseIdleConnections), and Close returns within milliseconds.
func (s *Server) Close(ctx context.Context) error {
	s.stop()
	err := httpshutdown.Shutdown(ctx, s.http)
	if err != nil {
		err = fmt.Errorf("demo: close: %w", errors.Join(err, s.http.Close()))
	}
	<-s.done
	return errors.Join(err, s.serveErr)
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("demo: address: %w", err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("%w, not on %q", ErrNotLoopback, addr)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// guard keeps web pages out: a page's requests carry an Origin, and one that has rebound its own name to 127.0.0.1
// carries that name as Host. No caller of this service is a page.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if r.Header.Get("Origin") != "" || !isLoopback(host) {
			http.Error(w, "this service answers programs on this machine only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
