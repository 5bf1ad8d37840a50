// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	ratelimitv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/ratelimit/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// procedure is the one method of the service.
const procedure = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// RateCaller makes unary gRPC calls. [*backend.Client] implements it.
type RateCaller interface {
	Call(ctx context.Context, procedure string, in []byte, md http.Header) (*backend.Answer, error)
}

// RateService asks one rate limit service. Make one with [NewRateService].
type RateService struct {
	caller  RateCaller
	config  *configv1.RateService
	timeout time.Duration
	breaker breaker
	health  health
	open    atomic.Int64 // questions
	counts  rateServiceCounts
}

// NewRateService returns a RateService that makes its calls with a client, which stays the caller's to close. log learns of a
// service that fails, and of its recovery.
func NewRateService(client RateCaller, r *configv1.RateService, log *zap.Logger) *RateService {
	return &RateService{
		caller: client, config: r, timeout: r.GetTimeout().AsDuration(),
		breaker: breaker{most: int(r.GetMaxFailures()), openFor: r.GetOpenFor().AsDuration()},
		health:  health{log: log, consequence: consequence(r.GetFailure() == failClosed)},
	}
}

// failClosed is the setting that rejects requests while the service does not answer.
const failClosed = "closed"

const (
	// rateServiceIdle keeps the connection to the rate limit service over quiet hours: the
	// first call after them would spend its time on a new one. A dead connection is found by
	// the pings of the client.
	rateServiceIdle = 24 * time.Hour
	// rateServiceBytes bounds a question, which has a caller, a tool and a tenant, and an
	// answer, which has a few numbers for each descriptor.
	rateServiceBytes = 64 << 10
)

// RateServiceClient returns the client of the rate limit service, nil without one. It opens
// no connection.
func RateServiceClient(r *configv1.RateService, version string) (*backend.Client, error) {
	if r.GetUrl() == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	target, err := backend.ParseTarget(r.GetUrl())
	if err != nil {
		return nil, err
	}
	tls := r.GetTls()
	return backend.New(target, backend.Options{
		Config: &configv1.Backend{
			Tls:          &configv1.BackendTls{CaFile: tls.GetCaFile(), CertFile: tls.GetCertFile(), KeyFile: tls.GetKeyFile(), ServerName: tls.GetServerName()},
			MaxSendBytes: new(int64(rateServiceBytes)), MaxReceiveBytes: new(int64(rateServiceBytes)),
		},
		MaxHTTP2Conns: 1, IdleTimeout: rateServiceIdle, UserAgent: "outrigger/" + version,
	})
}

// CheckRateService makes the client, which reads its files.
func CheckRateService(cfg *configv1.Config, report func(path, message string)) {
	client, err := RateServiceClient(cfg.GetRateService(), "")
	var target *backend.TargetError
	switch {
	case errors.As(err, &target):
		report("rate_service.url", target.Reason)
	case errors.Is(err, backend.ErrTLSUnused):
		report("rate_service.tls", "has no effect without TLS: use grpcs:// in rate_service.url")
	case err != nil:
		report("rate_service.tls", strings.TrimPrefix(err.Error(), "backend "+cfg.GetRateService().GetUrl()+": "))
	case client != nil:
		if err := client.Close(); err != nil {
			report("rate_service.url", err.Error())
		}
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
func (s *RateService) Check(ctx context.Context, caller, tool string, isPart bool) *errmap.Error {
	if s.open.Add(1) > int64(s.config.GetMaxInFlight()) {
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
	d := s.descriptors(identity.FromContext(ctx), caller, tool, isPart)
	start := time.Now()
	asking, cancel := context.WithTimeout(ctx, s.timeout)
	answer, err := s.ask(asking, d)
	cancel()
	took := time.Since(start)
	switch {
	case err == nil:
		s.breaker.leave(p, time.Now(), succeeded)
		s.health.answered()
		s.durations().Add(took, telemetry.Trace{})
	case ctx.Err() != nil:
		s.breaker.leave(p, time.Now(), undecided)
		s.counts.outcomes[outcomeCancelled].Add(1)
		return ended(ctx)
	default:
		return s.failed(p, took, err)
	}
	if answer.GetOverallCode() == ratelimitv1.RateLimitResponse_OVER_LIMIT {
		s.counts.outcomes[outcomeOverLimit].Add(1)
		return overLimit(answer, d)
	}
	s.counts.outcomes[outcomeOK].Add(1)
	return nil
}

// failed counts a question without an answer.
func (s *RateService) failed(p permit, took time.Duration, err error) *errmap.Error {
	now := time.Now()
	s.breaker.leave(p, now, broke)
	s.durations().Add(took, telemetry.Trace{})
	outcome, cause := outcomeError, err
	if failed := new(backend.Error); errors.As(err, &failed) && failed.Kind == backend.KindTimeout {
		outcome, cause = outcomeTimeout, fmt.Errorf("no answer within %v", s.timeout)
	}
	s.counts.outcomes[outcome].Add(1)
	s.health.failed(now, cause)
	return s.unanswered(s.breaker.openFor)
}

// ask sends one question.
func (s *RateService) ask(ctx context.Context, d []descriptor) (*ratelimitv1.RateLimitResponse, error) {
	in, err := proto.Marshal(s.request(d))
	if err != nil {
		return nil, fmt.Errorf("encode the question: %w", err)
	}
	got, err := s.caller.Call(ctx, procedure, in, nil)
	if err != nil {
		return nil, described(err)
	}
	answer := new(ratelimitv1.RateLimitResponse)
	if err := proto.Unmarshal(got.Body, answer); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	switch code := answer.GetOverallCode(); code {
	case ratelimitv1.RateLimitResponse_OK, ratelimitv1.RateLimitResponse_OVER_LIMIT:
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

// callError is the failure of a call, with its own text.
type callError struct {
	text  string
	cause error
}

// Error implements error.
func (e callError) Error() string { return e.text }

// Unwrap returns the failure as the client reported it.
func (e callError) Unwrap() error { return e.cause }

// unanswered is the outcome of a request that the service said nothing about.
func (s *RateService) unanswered(wait time.Duration) *errmap.Error {
	if s.config.GetFailure() != failClosed {
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
func (s *RateService) Probe(ctx context.Context) error {
	_, err := s.ask(ctx, []descriptor{{entries: []entry{{keyProbe, "1"}}}})
	return err
}

// Warm connects to the service before the first request, which would spend its time on
// that. A service that does not answer is logged.
func (s *RateService) Warm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if err := s.Probe(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		s.health.failed(time.Now(), err)
	}
}

// warmTimeout is longer than it takes to connect with TLS over a slow network.
const warmTimeout = 5 * time.Second

// unknownWait is the hint where the service does not say when a limit is reset: the
// shortest unit that limits have.
const unknownWait = time.Second

// overLimit is RATE_LIMITED for an answer to the question about d. If several limits are
// exceeded, the request has to wait for the one that is reset last.
func overLimit(a *ratelimitv1.RateLimitResponse, d []descriptor) *errmap.Error {
	var wait time.Duration
	text := "a limit that replicas share"
	for i, status := range a.GetStatuses() {
		if status.GetCode() != ratelimitv1.RateLimitResponse_OVER_LIMIT {
			continue
		}
		until := unknownWait
		if reset := status.GetDurationUntilReset(); reset != nil {
			until = max(minWait, reset.AsDuration())
		}
		if until <= wait {
			continue
		}
		wait = until
		if i < len(d) {
			text = "the shared limit of " + d[i].of + limitText(status.GetCurrentLimit())
		}
	}
	if wait == 0 {
		wait = unknownWait
	}
	return &errmap.Error{Code: errmap.RateLimited, RetryAfter: wait, Message: "Rate limit exceeded: " + text}
}

// limitText is a limit in words, or empty if the service does not name it.
func limitText(l *ratelimitv1.RateLimitResponse_RateLimit) string {
	if l == nil || l.GetUnit() == ratelimitv1.RateLimitResponse_RateLimit_UNKNOWN {
		return ""
	}
	return fmt.Sprintf(" is %d per %s", l.GetRequestsPerUnit(), strings.ToLower(l.GetUnit().String()))
}

// result is what a question says about the service.
type result uint8

const (
	// undecided: its caller went away first.
	undecided result = iota
	succeeded
	broke
)

// breaker keeps a service that fails from costing every request its timeout. After most
// consecutive failures nothing is asked for openFor, and then one question at a time until
// one is answered.
type breaker struct {
	most    int
	openFor time.Duration

	mu       sync.Mutex
	failures int
	// until is when the next question may be asked; zero while all may.
	until   time.Time
	probing bool
}

// permit is the right to ask one question.
type permit struct{ isProbe bool }

// enter permits a question, or says in how long one may be asked. leave must follow a permit.
func (b *breaker) enter(now time.Time) (p permit, wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return permit{}, 0, true
	case now.Before(b.until):
		return permit{}, b.until.Sub(now), false
	case b.probing:
		return permit{}, b.openFor, false
	}
	b.probing = true
	return permit{isProbe: true}, 0, true
}

// leave learns how a question ended. Questions that were open when the breaker opened
// count like others: an answer is an answer.
func (b *breaker) leave(p permit, now time.Time, r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.isProbe {
		b.probing = false
	}
	switch r {
	case succeeded:
		b.failures, b.until = 0, time.Time{}
	case broke:
		b.failures++
		if b.failures >= b.most {
			b.until = now.Add(b.openFor)
		}
	case undecided:
	}
}

// isOpen reports whether questions are held back.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.until.IsZero()
}

// Keys of descriptor entries, as the configuration of a service names them.
const (
	keyTenant = "tenant"
	keyCaller = "caller"
	keyTool   = "tool"
	keyProbe  = "probe"
)

// descriptor is a set of requests that a limit may exist for.
type descriptor struct {
	entries []entry
	// of names what is limited, for a caller over the limit.
	of string
}

type entry struct{ key, value string }

// descriptors are those of one request: its caller, its tool, and both. A part of a request
// that was counted for its caller before has the last two.
func (s *RateService) descriptors(who *identity.Identity, caller, tool string, isPart bool) []descriptor {
	var front []entry
	if tenant := tenantOf(who, s.config.GetTenantClaim()); tenant != "" {
		front = []entry{{keyTenant, tenant}}
	}
	with := func(of string, entries ...entry) descriptor {
		return descriptor{entries: append(slices.Clip(front), entries...), of: of}
	}
	byCaller := entry{keyCaller, hashOf(caller)}
	out := make([]descriptor, 0, 3)
	if !isPart || tool == "" {
		out = append(out, with("this caller", byCaller))
	}
	if tool != "" {
		byTool := entry{keyTool, tool}
		out = append(out, with(tool, byTool), with(tool+" for this caller", byCaller, byTool))
	}
	return out
}

// hashOf is what represents a caller: half of the hexadecimal SHA-256 of its key, the same on
// every replica. The service, its store and its logs never have the name.
func hashOf(caller string) string {
	const half = sha256.Size / 2
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:half])
}

// maxTenant is the longest tenant that is sent as it is: the domain names and ids that
// tenants have are shorter. A hash represents a longer one.
const maxTenant = 256

// tenantOf is the tenant of a caller, or empty.
func tenantOf(who *identity.Identity, claim string) string {
	tenant, _ := who.Facts().Claims[claim].(string)
	if len(tenant) > maxTenant {
		return hashOf(tenant)
	}
	return tenant
}

// request is the question about descriptors.
func (s *RateService) request(all []descriptor) *ratelimitv1.RateLimitRequest {
	r := &ratelimitv1.RateLimitRequest{
		Domain: s.config.GetDomain(), HitsAddend: 1, Descriptors: make([]*ratelimitv1.RateLimitDescriptor, len(all)),
	}
	for i, d := range all {
		entries := make([]*ratelimitv1.RateLimitDescriptor_Entry, len(d.entries))
		for j, e := range d.entries {
			entries[j] = &ratelimitv1.RateLimitDescriptor_Entry{Key: e.key, Value: e.value}
		}
		r.Descriptors[i] = &ratelimitv1.RateLimitDescriptor{Entries: entries}
	}
	return r
}

// warnEvery bounds the warnings of a service that keeps failing and recovering.
const warnEvery = time.Minute

// health logs a service that begins to fail, and its recovery: one line each.
type health struct {
	log *zap.Logger
	// consequence is what a failure means for requests.
	consequence string

	failing  atomic.Bool
	mu       sync.Mutex
	warned   time.Time // zero before the first
	since    time.Time
	failures int
}

// failed learns of a question without an answer.
func (h *health) failed(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failing.Load() || !h.warned.IsZero() && now.Sub(h.warned) < warnEvery {
		return
	}
	h.failing.Store(true)
	h.warned, h.since = now, now
	h.log.Warn("rate limit service failing; "+h.consequence, logkey.Error(err), zap.Int("failures", h.failures))
}

// answered learns of an answer. It takes no lock while all is well.
func (h *health) answered() {
	if !h.failing.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing.Swap(false) {
		h.log.Info("rate limit service answers again", zap.Int("failures", h.failures), zap.Duration("duration_ms", time.Since(h.since)))
		h.failures = 0
	}
}

// Outcomes of questions, by their index.
const (
	outcomeOK = iota
	outcomeOverLimit
	outcomeError
	outcomeTimeout
	outcomeCancelled
	outcomes
)

// Reasons for which the service was not asked, by their index.
const (
	skippedBreaker = iota
	skippedFull
	rateServiceReasons
)

// durations are those of questions, by buckets from an answer on loopback to the longest timeout.
func (s *RateService) durations() telemetry.Histogram {
	return telemetry.Histogram{Durations: &s.counts.took, Bounds: []time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second,
	}}
}

// rateServiceCounts is what a RateService has counted.
type rateServiceCounts struct {
	outcomes [outcomes]atomic.Uint64
	skipped  [rateServiceReasons]atomic.Uint64
	took     telemetry.Durations
}

// RateServiceStats is a snapshot of what a RateService has counted.
type RateServiceStats struct {
	// OK and OverLimit count answers, Errors and Timeouts questions without one. Cancelled
	// counts questions whose request ended first.
	OK, OverLimit, Errors, Timeouts, Cancelled uint64
	// SkippedBreaker and SkippedFull count requests that were not asked about: the service
	// kept failing, or too many questions were open.
	SkippedBreaker, SkippedFull uint64
	// InFlight is the number of open questions, MaxInFlight its limit.
	InFlight, MaxInFlight int
	// Failing is set while the service is not asked because it kept failing.
	Failing bool
	// Took are the durations of questions, without cancelled ones.
	Took telemetry.Histogram
}

// Stats returns what was counted so far.
func (s *RateService) Stats() RateServiceStats {
	c := &s.counts
	return RateServiceStats{
		OK: c.outcomes[outcomeOK].Load(), OverLimit: c.outcomes[outcomeOverLimit].Load(), Errors: c.outcomes[outcomeError].Load(),
		Timeouts: c.outcomes[outcomeTimeout].Load(), Cancelled: c.outcomes[outcomeCancelled].Load(),
		SkippedBreaker: c.skipped[skippedBreaker].Load(), SkippedFull: c.skipped[skippedFull].Load(),
		InFlight: int(s.open.Load()), MaxInFlight: int(s.config.GetMaxInFlight()), Failing: s.breaker.isOpen(), Took: s.durations(),
	}
}
