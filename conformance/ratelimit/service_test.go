// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// service is a running rate limit service with its own store.
type service struct {
	addr, dir string
	store     *miniredis.Miniredis
	cmd       *exec.Cmd
	log       logOf
	waiting   sync.WaitGroup
}

// logOf is what a process writes.
type logOf struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logOf) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logOf) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startService starts a service with the limits of a configuration.
func startService(t *testing.T, limits string) *service {
	t.Helper()
	s := &service{addr: testkit.Reserved(t), dir: t.TempDir(), store: miniredis.RunT(t)}
	folder := filepath.Join(s.dir, "limits", "config")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "limits.yaml"), []byte(limits), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

// start runs the service with the store that it has, on the port that it had, and waits until it answers.
func (s *service) start(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(built.service)
	s.cmd.Env = append(os.Environ(),
		"HOST="+host, "PORT=0", "DEBUG_HOST="+host, "DEBUG_PORT=0", "GRPC_HOST="+host, "GRPC_PORT="+port,
		"RUNTIME_ROOT="+s.dir, "RUNTIME_SUBDIRECTORY=limits", "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+s.store.Addr(), "LOG_LEVEL=warn",
	)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.waiting.Go(func() { _ = s.cmd.Wait() })
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	got, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"}, grpc.WaitForReady(true))
	if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("the service does not run: %v %v\n%s", got, err, &s.log)
	}
}

// stop kills the process and waits for its end. It may be called twice.
func (s *service) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	s.waiting.Wait()
}

// replica starts a sidecar in front of the example service that asks the service.
func (s *service) replica(t *testing.T, more ...string) *sidecar.Server {
	t.Helper()
	return sidecar.ServeReady(t, built.binary, append([]string{"--demo", "--rate-service", "grpc://" + s.addr}, more...)...)
}
