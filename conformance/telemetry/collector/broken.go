// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Hung listens, takes connections and all that is sent, and never answers.
type Hung struct {
	listener net.Listener
	stop     func()
	taken    atomic.Int64
}

// Hang starts a Hung at a host:port of loopback.
func Hang(tb testing.TB, addr string) *Hung {
	tb.Helper()
	l := testkit.Listen(tb, addr)
	h := &Hung{listener: l}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.taken.Add(1)
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		}
	})
	h.stop = sync.OnceFunc(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	tb.Cleanup(h.stop)
	return h
}

// Connections is how many connections were made.
func (h *Hung) Connections() int64 { return h.taken.Load() }

// Stop ends it before the test does.
func (h *Hung) Stop() { h.stop() }

// Slow answers every export as a collector would, but late.
type Slow struct {
	stop    func()
	answers atomic.Int64
}

// Delay starts a Slow at a host:port of loopback.
func Delay(tb testing.TB, addr string, by time.Duration) *Slow {
	tb.Helper()
	l := testkit.Listen(tb, addr)
	s := &Slow{}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(by):
		case <-r.Context().Done():
			return
		}
		s.answers.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(http.StatusOK)
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	s.stop = sync.OnceFunc(func() {
		_ = server.Close()
		running.Wait()
	})
	tb.Cleanup(s.stop)
	return s
}

// Answers is how many exports were answered.
func (s *Slow) Answers() int64 { return s.answers.Load() }

// Stop ends it before the test does.
func (s *Slow) Stop() { s.stop() }
