// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
)

const (
	// startTimeout bounds a start. The limit that is measured is a hundredth of it.
	startTimeout = 30 * time.Second
	// pollEvery is the resolution of the time to /readyz.
	pollEvery = time.Millisecond
	// catalogWait bounds how long another catalog takes to be in use; the metrics are read every catalogEvery.
	catalogWait  = 30 * time.Second
	catalogEvery = 50 * time.Millisecond
)

// Sidecar is a running sidecar that is ready. Its owner stops it.
type Sidecar struct {
	*proc.Process

	// Addr is the main listener, Admin the operators', host:port.
	Addr, Admin string
	// Ready is the time from fork and exec to the first 200 of /readyz.
	Ready time.Duration

	mu     sync.Mutex
	logged time.Duration
}

// Logged is the time from fork and exec to the arrival of the log line that says "ready"; zero while there was none,
// as with --log-level warn.
func (s *Sidecar) Logged() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged
}

// ErrNotReady tells that the sidecar did not become ready in time.
var ErrNotReady = errors.New("not ready in time")

// Start starts `sidecar serve` with args on free ports of the loopback address and waits until it is ready. dir is its
// working directory.
func Start(ctx context.Context, bin, dir string, args ...string) (*Sidecar, error) {
	return StartWith(ctx, nil, bin, dir, args...)
}

// environment is that of this process with more in place of what it has for OpenTelemetry, which would be measured too.
func environment(more []string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OTEL_") }), more...)
}

// StartWith is Start with more variables ("NAME=value").
func StartWith(ctx context.Context, env []string, bin, dir string, args ...string) (*Sidecar, error) {
	ports, err := freeAddrs(ctx, 2)
	if err != nil {
		return nil, err
	}
	s := &Sidecar{Addr: ports[0], Admin: ports[1]}
	var began time.Time
	s.mu.Lock() // until began is known, a line waits
	s.Process, err = proc.Start(ctx, proc.Spec{
		Path: bin, Dir: dir, Env: environment(env),
		Args: append([]string{"serve", "--listen", ports[0], "--admin", ports[1], "--record-dir", "off", "--log-format", "json"}, args...),
		OnStderr: func(line []byte) {
			now := time.Now()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.logged == 0 && isReadyLine(line) {
				s.logged = now.Sub(began)
			}
		},
	})
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	began = s.Started()
	s.mu.Unlock()
	if err := s.awaitReady(ctx, ports[1]); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func isReadyLine(line []byte) bool {
	if !bytes.Contains(line, []byte("ready")) {
		return false
	}
	var entry struct {
		Msg string `json:"msg"`
	}
	return json.Unmarshal(line, &entry) == nil && entry.Msg == "ready"
}

// awaitReady asks /readyz until it says 200.
func (s *Sidecar) awaitReady(ctx context.Context, admin string) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if isReady(ctx, transport, "http://"+admin+"/readyz") {
			s.Ready = time.Since(s.Started())
			return nil
		}
		select {
		case <-tick.C:
		case <-s.Done():
			return s.Failure("start")
		case <-ctx.Done():
			return errors.Join(ErrNotReady, s.Failure("start"), ctx.Err())
		}
	}
}

// AwaitTools asks the metrics until they count at least so many tools.
func (s *Sidecar) AwaitTools(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catalogWait, fmt.Errorf("there is no catalog of %d tools after %v", want, catalogWait))
	defer cancel()
	tick := time.NewTicker(catalogEvery)
	defer tick.Stop()
	for {
		if got, err := s.Tools(ctx); err == nil && got >= want {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.Done():
			return s.Failure("load tools")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Tools is how many tools the metrics count.
func (s *Sidecar) Tools(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "\noutrigger_catalog_tools ")
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(line)
}

func isReady(ctx context.Context, transport http.RoundTripper, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return false // it does not listen yet
	}
	_, _ = io.Copy(io.Discard, res.Body) // frees the connection for the next question
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// freeAddrs returns addresses that nothing listened on a moment ago. The sidecar could choose its ports itself and log
// them, but not with --log-level warn.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		var listen net.ListenConfig
		listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // all at the end, so that they differ
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs, nil
}
