// SPDX-License-Identifier: Apache-2.0

package ratetest

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/durationpb"

	ratelimitv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/ratelimit/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Answer decides about one question.
type Answer func(context.Context, *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error)

// Server is a rate limit service. Until a test says otherwise, nothing is over a limit.
type Server struct {
	addr, scheme string
	options      []grpc.ServerOption

	mu     sync.Mutex
	server *grpc.Server
	served sync.WaitGroup
	answer Answer
	asked  []*ratelimitv1.RateLimitRequest
}

// Start starts a server, which stops at the end of the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, "grpc")
}

// StartTLS is Start with TLS.
func StartTLS(tb testing.TB, config *tls.Config) *Server {
	tb.Helper()
	return start(tb, "grpcs", grpc.Creds(credentials.NewTLS(config)))
}

func start(tb testing.TB, scheme string, options ...grpc.ServerOption) *Server {
	tb.Helper()
	s := &Server{addr: testkit.Reserved(tb), scheme: scheme, options: options, answer: OK()}
	s.Restart(tb)
	tb.Cleanup(s.Stop)
	return s
}

// Restart starts a stopped server at the address that it had.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(s.options...)
	server.RegisterService(&service, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = server
	s.served.Go(func() { _ = server.Serve(listener) })
}

// Stop ends the server and its connections. It may be called twice.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	server.Stop()
	s.served.Wait()
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return s.addr }

// URL returns the URL of the server, as `rate_service.url` has it.
func (s *Server) URL() string { return s.scheme + "://" + s.addr }

// Answer changes how questions are answered.
func (s *Server) Answer(by Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = by
}

// service is Envoy's, whose messages ratelimitv1 has.
var service = grpc.ServiceDesc{
	ServiceName: "envoy.service.ratelimit.v3.RateLimitService",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "ShouldRateLimit",
		Handler: func(s any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			r := new(ratelimitv1.RateLimitRequest)
			if err := read(r); err != nil {
				return nil, err
			}
			return s.(*Server).shouldRateLimit(ctx, r)
		},
	}},
}

func (s *Server) shouldRateLimit(ctx context.Context, r *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
	s.mu.Lock()
	if !isProbe(r) {
		s.asked = append(s.asked, r)
	}
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, r)
}

// isProbe reports whether a question is about no request.
func isProbe(r *ratelimitv1.RateLimitRequest) bool {
	d := r.GetDescriptors()
	return len(d) == 1 && d[0].GetEntries()[0].GetKey() == "probe"
}

// Asked returns the questions so far, without probes, and forgets them.
func (s *Server) Asked() []*ratelimitv1.RateLimitRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	return out
}

// Text is a descriptor as text, such as "caller=a tool=b".
func Text(d *ratelimitv1.RateLimitDescriptor) string {
	parts := make([]string, 0, len(d.GetEntries()))
	for _, e := range d.GetEntries() {
		parts = append(parts, e.GetKey()+"="+e.GetValue())
	}
	return strings.Join(parts, " ")
}

// OK answers that nothing is over a limit.
func OK() Answer {
	return func(_ context.Context, r *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
		out := &ratelimitv1.RateLimitResponse{OverallCode: ratelimitv1.RateLimitResponse_OK}
		for range r.GetDescriptors() {
			out.Statuses = append(out.Statuses, &ratelimitv1.RateLimitResponse_DescriptorStatus{Code: ratelimitv1.RateLimitResponse_OK})
		}
		return out, nil
	}
}

// Counting allows most hits of each descriptor that has the key as its last one, for ever.
// What is over that is reset in reset.
func Counting(key string, most uint32, reset time.Duration) Answer {
	var mu sync.Mutex
	counts := map[string]uint32{}
	return func(_ context.Context, r *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		out := &ratelimitv1.RateLimitResponse{OverallCode: ratelimitv1.RateLimitResponse_OK}
		for _, d := range r.GetDescriptors() {
			status := &ratelimitv1.RateLimitResponse_DescriptorStatus{Code: ratelimitv1.RateLimitResponse_OK}
			if last := d.GetEntries()[len(d.GetEntries())-1]; last.GetKey() == key {
				status.CurrentLimit = &ratelimitv1.RateLimitResponse_RateLimit{RequestsPerUnit: most, Unit: ratelimitv1.RateLimitResponse_RateLimit_MINUTE}
				status.DurationUntilReset = durationpb.New(reset)
				if counts[Text(d)] += r.GetHitsAddend(); counts[Text(d)] > most {
					status.Code, out.OverallCode = ratelimitv1.RateLimitResponse_OVER_LIMIT, ratelimitv1.RateLimitResponse_OVER_LIMIT
				}
			}
			out.Statuses = append(out.Statuses, status)
		}
		return out, nil
	}
}

// Hanging never answers.
func Hanging() Answer {
	return func(ctx context.Context, _ *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// Failing answers with an error.
func Failing(err error) Answer {
	return func(context.Context, *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
		return nil, err
	}
}
