// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// introspector asks the introspection endpoint of an issuer (RFC 7662).
type introspector struct {
	of     *issuer
	opts   Introspection
	places chan struct{}
	counts *counts
}

func newIntrospector(of *issuer, o Introspection, counts *counts) *introspector {
	o.TTL = orElse(o.TTL, defaults.OAuthIntrospectionTTL)
	places := make(chan struct{}, orElse(o.MaxConcurrent, defaults.OAuthIntrospectionMaxConcurrent))
	return &introspector{of: of, opts: o, places: places, counts: counts}
}

// retryIntrospection is when to try again after an introspection that failed.
const retryIntrospection = 2 * time.Second

// ask returns the claims of an active token. The error is a fault of the token, or
// *unavailableError.
func (s *introspector) ask(ctx context.Context, raw string) (map[string]any, error) {
	body, err := s.send(ctx, raw)
	if err != nil {
		s.counts.introspectionsFailed.Add(1)
		s.of.log.Warn("introspecting a token failed", logkey.Error(err))
		return nil, &unavailableError{Retry: retryIntrospection, Cause: err}
	}
	s.counts.introspections.Add(1)
	claims, ok := strictObject(body)
	if !ok {
		return nil, &unavailableError{Retry: retryIntrospection, Cause: errors.New("the introspection response is no JSON object")}
	}
	return claims, s.check(claims)
}

// check checks what only an introspection response has.
func (s *introspector) check(claims map[string]any) error {
	if active, _ := claims["active"].(bool); !active {
		return bad(Inactive, "the token is not active")
	}
	if iss, ok := claims["iss"]; ok && iss != s.of.name() {
		return bad(UnknownIssuer, "the token is of another issuer")
	}
	switch kind, _ := claims["token_type"].(string); strings.ToLower(kind) {
	case "", "bearer", "dpop", "access_token":
		return nil
	}
	return bad(BadType, "the token is of a type that is not accepted")
}

// send sends the request, once there is a place for it.
func (s *introspector) send(ctx context.Context, raw string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, s.of.fetch.timeout)
	defer stop()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return nil, errors.New("too many introspection requests are in flight")
	}
	secret, err := s.opts.Secret()
	if err != nil {
		return nil, err
	}
	to, err := s.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	form := url.Values{"token": {raw}, "token_type_hint": {"access_token"}}
	return s.of.fetch.post(ctx, to, form, s.opts.ClientID, secret)
}

// endpoint is the configured one, or that of the metadata. The issuer's exact name, with which
// the response is compared, is known afterwards in both cases.
func (s *introspector) endpoint(ctx context.Context) (string, error) {
	if s.of.meta.Load() == nil {
		if _, err := s.of.keys.look(ctx); err != nil {
			return "", err
		}
	}
	m := s.of.meta.Load()
	if m == nil {
		return "", errors.New("the issuer's metadata has not been found")
	}
	if to := orElse(s.opts.URL, m.Introspect); to != "" {
		return to, nil
	}
	return "", errors.New("the issuer's metadata has no introspection endpoint")
}

const (
	// maxInactive bounds the inactive tokens that are remembered, so that a client that keeps sending one does not have it
	// introspected each time.
	maxInactive = 1024
	// inactiveFor is how long a token stays inactive without another introspection.
	inactiveFor = 10 * time.Second
)

// introspect asks one issuer about a token. A token that is in the cache keeps its identity
// where nothing about it has changed, so that its streams go on.
func (v *Verifier) introspect(ctx context.Context, i *issuer, raw string, digest Digest) (*verified, error) {
	claims, err := i.asked.ask(ctx, raw)
	if err != nil {
		return nil, err
	}
	ends, f := v.leaseOf(i, claims)
	if f != nil {
		return nil, f
	}
	before := v.tokens.get(&digest)
	e := &verified{until: ends}
	e.lease = newLease(dueBefore(ends), ends, v.renewal(i, raw, digest, ends))
	if e, err = v.accept(i, claims, digest, e); err != nil || before == nil {
		return e, err
	}
	if before.lease.Ended() || before.subject != e.subject || before.bound != e.bound || !reflect.DeepEqual(before.facts, e.facts) {
		before.lease.End()
		return e, nil
	}
	before.lease.Extend(dueBefore(ends), ends)
	again := *before
	again.until = ends
	v.tokens.put(&digest, &again, time.Now())
	return &again, nil
}

// leaseOf is how long an introspection response can be used. A token without an expiry is
// asked about again and again.
func (v *Verifier) leaseOf(i *issuer, claims map[string]any) (time.Time, *fault) {
	now := time.Now()
	ends := now.Add(i.asked.opts.TTL)
	when, f := spanOf(claims)
	if f != nil {
		return ends, f
	}
	if !when.to.IsZero() {
		if f := when.check(now, 0); f != nil && f.reason == Expired {
			return ends, f
		}
		if when.to.Before(ends) {
			ends = when.to
		}
	}
	return ends, nil
}

// dueBefore is when a response is renewed that a stream depends on: early enough to try more
// than once.
func dueBefore(ends time.Time) time.Time { return ends.Add(-time.Until(ends) / 3) }

// renewal introspects a token again while a stream depends on it. While its issuer cannot be
// reached it tries again until the end, which stays as it is.
func (v *Verifier) renewal(i *issuer, raw string, digest Digest, ends time.Time) Renewal {
	return func() (time.Time, time.Time) {
		e, err := v.introspect(v.life, i, raw, digest)
		var down *unavailableError
		switch {
		case err == nil:
			ends = e.until
			return dueBefore(ends), ends
		case errors.As(err, &down):
			return time.Now().Add(min(retryIntrospection, max(0, time.Until(ends)))), ends
		}
		v.forget(&digest)
		return time.Now(), time.Now()
	}
}
