// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// introspect asks one issuer about a token. A token that is in the cache keeps its identity
// where nothing about it has changed, so that its streams go on.
func (v *Verifier) introspect(ctx context.Context, i *issuer, raw string, digest access.Digest) (*verified, error) {
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
	e.lease = access.NewLease(dueBefore(ends), ends, v.renewal(i, raw, digest, ends))
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
func (v *Verifier) renewal(i *issuer, raw string, digest access.Digest, ends time.Time) access.Renewal {
	return func() (time.Time, time.Time) {
		e, err := v.introspect(v.life, i, raw, digest)
		var down *access.Unavailable
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
