// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// introspector asks the introspection endpoint of an issuer (RFC 7662).
type introspector struct {
	of     *issuer
	opts   Introspection
	places chan struct{}
	counts *counts
}

func newIntrospector(of *issuer, o Introspection, counts *counts) *introspector {
	o.TTL = orElse(o.TTL, defaults.IntrospectionTTL)
	places := make(chan struct{}, orElse(o.MaxConcurrent, defaults.IntrospectionMaxConcurrent))
	return &introspector{of: of, opts: o, places: places, counts: counts}
}

// retryIntrospection is when to try again after an introspection that failed.
const retryIntrospection = 2 * time.Second

// ask returns the claims of an active token. The error is a fault of the token, or
// *access.Unavailable.
func (s *introspector) ask(ctx context.Context, raw string) (map[string]any, error) {
	body, err := s.send(ctx, raw)
	if err != nil {
		s.counts.introspectionsFailed.Add(1)
		s.of.log.Warn("introspecting a token failed", logkey.Error(err))
		return nil, &access.Unavailable{Retry: retryIntrospection, Cause: err}
	}
	s.counts.introspections.Add(1)
	claims, ok := strictObject(body)
	if !ok {
		return nil, &access.Unavailable{Retry: retryIntrospection, Cause: errors.New("the introspection response is no JSON object")}
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
