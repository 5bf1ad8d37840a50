// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc"
)

// startLimit bounds the start of a NATS server.
const startLimit = time.Minute

// Shared is what replicas share: a real NATS server, and a rate limit service that admits everything.
type Shared struct {
	nats  *server.Server
	rates *grpc.Server
	ended chan struct{}

	key, rateURL string
}

// StartShared starts both with their files in dir.
func StartShared(ctx context.Context, dir string) (*Shared, error) {
	s := &Shared{key: filepath.Join(dir, "state.key"), ended: make(chan struct{})}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(s.key, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		return nil, fmt.Errorf("start the shared state: %w", err)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the rate limit service: %w", err)
	}
	if s.nats, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(dir, "nats"), NoLog: true, NoSigs: true,
		JetStreamMaxStore: 8 << 30, // the default is a share of the free disk, which streams reserve
	}); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	s.rateURL, s.rates = "grpc://"+l.Addr().String(), grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(s.rates, admitting{})
	go func() {
		defer close(s.ended)
		_ = s.rates.Serve(l) // it ends with Stop
	}()
	s.nats.Start()
	if !s.nats.ReadyForConnections(startLimit) {
		s.Stop()
		return nil, errors.New("start NATS: it does not become ready")
	}
	return s, nil
}

// Flags are those of a sidecar that uses both.
func (s *Shared) Flags() []string {
	return []string{"--state", s.nats.ClientURL(), "--state-key", s.key, "--rate-service", s.rateURL}
}

// Stop stops both.
func (s *Shared) Stop() {
	s.rates.Stop()
	<-s.ended
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// admitting is a rate limit service without limits.
type admitting struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit implements the service.
func (admitting) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	out := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	for range r.GetDescriptors() {
		out.Statuses = append(out.Statuses, &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_OK})
	}
	return out, nil
}
