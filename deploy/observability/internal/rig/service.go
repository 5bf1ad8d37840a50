// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// Service is the demo service behind the sidecar. It can be taken down and brought back on the same port.
type Service struct {
	handler http.Handler
	addr    string

	mu      sync.Mutex
	running *http.Server
	ended   chan struct{}
}

// StartService starts the demo service, with a span for each call.
func StartService(ctx context.Context, tracers trace.TracerProvider) (*Service, error) {
	handler, err := demo.Handler(demo.Options{})
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	addrs, err := FreeAddrs(ctx, 1)
	if err != nil {
		return nil, err
	}
	s := &Service{addr: addrs[0], handler: otelhttp.NewHandler(handler, "", otelhttp.WithTracerProvider(tracers), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.URL.Path[1:] }))}
	return s, s.Up(ctx)
}

// URL returns where the service is.
func (s *Service) URL() string { return "http://" + s.addr }

// Up makes the service listen.
func (s *Service) Up(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", s.addr)
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server, ended := &http.Server{Handler: s.handler, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second}, make(chan struct{})
	s.running, s.ended = server, ended
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	return nil
}

// Down breaks all connections and stops listening.
func (s *Service) Down() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil
	}
	err := s.running.Close()
	<-s.ended
	s.running = nil
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop the service: %w", err)
	}
	return nil
}
