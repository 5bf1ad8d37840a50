// SPDX-License-Identifier: Apache-2.0

package rateservice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// procedure is the one method of the service.
const procedure = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// Caller makes unary gRPC calls. [*backend.Client] implements it.
type Caller interface {
	Call(ctx context.Context, procedure string, in []byte, md http.Header) (*backend.Answer, error)
}

// Options configure a Service. Zero fields have the defaults of package defaults.
type Options struct {
	// Domain selects the limits in the configuration of the service.
	Domain string
	// Timeout bounds the wait for one answer.
	Timeout time.Duration
	// FailClosed rejects requests while the service does not answer. Otherwise they run.
	FailClosed bool
	// MaxInFlight bounds the questions that are open at once.
	MaxInFlight int
	// MaxFailures is the number of consecutive failures after which the service is not asked
	// for OpenFor.
	MaxFailures int
	OpenFor     time.Duration
	// TenantClaim is the claim of a caller's token that names its tenant.
	TenantClaim string
	// Log is told of a service that fails, and of its recovery; nil discards.
	Log *zap.Logger
}

// Service asks one rate limit service. Make one with [New].
type Service struct {
	caller  Caller
	opts    Options
	breaker breaker
	health  health
	open    atomic.Int64 // questions
	counts  counts
}

// New returns a Service that makes its calls with c, which stays the caller's to close.
func New(c Caller, o Options) *Service {
	if o.Domain == "" {
		o.Domain = defaults.RateServiceDomain
	}
	if o.TenantClaim == "" {
		o.TenantClaim = defaults.RateServiceTenantClaim
	}
	defaults.Fill(&o.Timeout, defaults.RateServiceTimeout)
	defaults.Fill(&o.MaxInFlight, defaults.RateServiceMaxInFlight)
	defaults.Fill(&o.MaxFailures, defaults.RateServiceMaxFailures)
	defaults.Fill(&o.OpenFor, defaults.RateServiceOpenFor)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Service{
		caller: c, opts: o,
		breaker: breaker{most: o.MaxFailures, openFor: o.OpenFor},
		health:  health{log: o.Log, consequence: consequence(o.FailClosed)},
	}
}

// consequence says what a failing service means for requests.
func consequence(closed bool) string {
	if closed {
		return "requests are rejected"
	}
	return "requests run without shared limits"
}

// Check counts one request at the service. caller is the key of the caller, and ctx has its
// identity. tool is the canonical name of the called tool, or empty. isPart is set for a
// call within a request that was counted for its caller before.
//
// It returns nil if the request may run, RATE_LIMITED with the time until the limit is reset
// if it may not, and CANCELLED or TIMEOUT if ctx ends meanwhile. If the service does not
// answer, it returns nil or UNAVAILABLE, as the options say.
func (s *Service) Check(ctx context.Context, caller, tool string, isPart bool) *errmap.Error {
	if s.open.Add(1) > int64(s.opts.MaxInFlight) {
		s.open.Add(-1)
		s.counts.skipped[skippedFull].Add(1)
		return s.unanswered(time.Second)
	}
	defer s.open.Add(-1)
	p, wait, ok := s.breaker.enter(time.Now())
	if !ok {
		s.counts.skipped[skippedBreaker].Add(1)
		return s.unanswered(wait)
	}
	d := s.descriptors(access.FromContext(ctx), caller, tool, isPart)
	start := time.Now()
	asking, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	answer, err := s.ask(asking, d)
	cancel()
	took := time.Since(start)
	switch {
	case err == nil:
		s.breaker.leave(p, time.Now(), succeeded)
		s.health.answered()
		s.counts.took.add(took)
	case ctx.Err() != nil:
		s.breaker.leave(p, time.Now(), undecided)
		s.counts.outcomes[outcomeCancelled].Add(1)
		return ended(ctx)
	default:
		return s.failed(p, took, err)
	}
	if answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT {
		s.counts.outcomes[outcomeOverLimit].Add(1)
		return overLimit(answer, d)
	}
	s.counts.outcomes[outcomeOK].Add(1)
	return nil
}

// failed counts a question without an answer.
func (s *Service) failed(p permit, took time.Duration, err error) *errmap.Error {
	now := time.Now()
	s.breaker.leave(p, now, broke)
	s.counts.took.add(took)
	outcome, cause := outcomeError, err
	if isTimeout(err) {
		outcome, cause = outcomeTimeout, fmt.Errorf("no answer within %v", s.opts.Timeout)
	}
	s.counts.outcomes[outcome].Add(1)
	s.health.failed(now, cause)
	return s.unanswered(s.opts.OpenFor)
}

// isTimeout reports whether the time for an answer was over.
func isTimeout(err error) bool {
	var failed *backend.Error
	return errors.As(err, &failed) && failed.Kind == backend.KindTimeout
}

// ask sends one question.
func (s *Service) ask(ctx context.Context, d []descriptor) (*ratelimitv3.RateLimitResponse, error) {
	in, err := proto.Marshal(s.request(d))
	if err != nil {
		return nil, fmt.Errorf("encode the question: %w", err)
	}
	got, err := s.caller.Call(ctx, procedure, in, nil)
	if err != nil {
		return nil, described(err)
	}
	answer := new(ratelimitv3.RateLimitResponse)
	if err := proto.Unmarshal(got.Body, answer); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	switch code := answer.GetOverallCode(); code {
	case ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT:
		return answer, nil
	default:
		return nil, fmt.Errorf("the answer has the code %v", code)
	}
}

// described is an error in words that do not take the service for the backend.
func described(err error) error {
	var failed *backend.Error
	if !errors.As(err, &failed) {
		return err
	}
	text := failed.Kind.String()
	switch {
	case failed.Kind == backend.KindStatus:
		text = failed.PeerCode + ": " + failed.Message
	case failed.Unwrap() != nil:
		text += ": " + failed.Unwrap().Error()
	}
	return callError{text: text, cause: failed}
}

// callError is the failure of a call, with a text of its own.
type callError struct {
	text  string
	cause error
}

// Error implements error.
func (e callError) Error() string { return e.text }

// Unwrap returns the failure as the client reported it.
func (e callError) Unwrap() error { return e.cause }

// unanswered is the outcome of a request that the service said nothing about.
func (s *Service) unanswered(wait time.Duration) *errmap.Error {
	if !s.opts.FailClosed {
		return nil
	}
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(max(wait, minWait)),
		errmap.Message("Rate limit service unavailable: requests are rejected until it answers"))
}

// minWait keeps a hint from being zero, which would be none.
const minWait = time.Millisecond

// ended is the outcome of a request whose context ended while the service was asked.
func ended(ctx context.Context) *errmap.Error {
	code := errmap.Cancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = errmap.Timeout
	}
	return errmap.Wrap(code, context.Cause(ctx))
}

// Probe asks whether the service answers until ctx ends, and connects to it. It counts
// nothing: its descriptor has no limit unless somebody configures one for it. The error says
// what is wrong.
func (s *Service) Probe(ctx context.Context) error {
	_, err := s.ask(ctx, []descriptor{{entries: []entry{{keyProbe, "1"}}}})
	return err
}

// Warm connects to the service before the first request, which would spend its time on
// that. A service that does not answer is logged.
func (s *Service) Warm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if err := s.Probe(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		s.health.failed(time.Now(), err)
	}
}

// warmTimeout is longer than it takes to connect with TLS over a slow network.
const warmTimeout = 5 * time.Second
