// SPDX-License-Identifier: Apache-2.0

// Package sink is where a collector sends what it received: it keeps traces in memory, and drops metrics and logs.
//
// It keeps a bounded number of requests and says how many it left out. It is safe for concurrent use.
package sink

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxBody bounds a request, maxKept what is kept of all.
	maxBody, maxKept = 16 << 20, 64 << 20
)

// Sink receives OTLP over HTTP.
type Sink struct {
	url    string
	server *http.Server
	done   chan struct{}

	mu      sync.Mutex
	traces  [][]byte
	kept    int
	left    int
	metrics int
	logs    int
}

// Start listens on a free port of the loopback address.
func Start(ctx context.Context) (*Sink, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the sink: %w", err)
	}
	s := &Sink{url: "http://" + l.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.receive(s.keep))
	mux.HandleFunc("POST /v1/metrics", s.receive(func([]byte) { s.metrics++ }))
	mux.HandleFunc("POST /v1/logs", s.receive(func([]byte) { s.logs++ }))
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(l)
	}()
	return s, nil
}

// URL returns the base of the endpoints.
func (s *Sink) URL() string { return s.url }

// Traces returns the requests with traces, in OTLP's JSON if the collector sends it.
func (s *Sink) Traces() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.traces...)
}

// Counts returns how many requests came with traces, metrics and logs, and how many of the first were not kept.
func (s *Sink) Counts() (traces, metrics, logs, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.traces) + s.left, s.metrics, s.logs, s.left
}

// Stop ends the sink.
func (s *Sink) Stop() error {
	err := s.server.Close()
	<-s.done
	if err != nil {
		return fmt.Errorf("stop the sink: %w", err)
	}
	return nil
}

// keep is called with the lock held.
func (s *Sink) keep(body []byte) {
	if s.kept+len(body) > maxKept {
		s.left++
		return
	}
	s.kept += len(body)
	s.traces = append(s.traces, body)
}

func (s *Sink) receive(take func([]byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := read(http.MaxBytesReader(w, r.Body, maxBody), r.Header.Get("Content-Encoding"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		take(body)
		s.mu.Unlock()
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		if r.Header.Get("Content-Type") == "application/json" {
			_, _ = io.WriteString(w, "{}")
		}
	}
}

// read reads a body of at most maxBody bytes, before and after it is unpacked.
func read(body io.Reader, encoding string) ([]byte, error) {
	if encoding == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		body = unpacked
	}
	out, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if len(out) > maxBody {
		return nil, fmt.Errorf("more than %d bytes", maxBody)
	}
	return out, nil
}
