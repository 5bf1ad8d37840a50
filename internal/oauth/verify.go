// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// verify verifies a token that is not in the cache, or not good there any more. It returns nil
// without an error for a token that is no issuer's.
func (v *Verifier) verify(ctx context.Context, raw string, digest access.Digest, isDPoP bool) (*verified, error) {
	switch kindOf(raw) {
	case signed:
		t, f := parse(raw)
		if f != nil {
			return nil, f
		}
		if i := v.byURL[route(t.issuer)]; i != nil {
			return v.verifySigned(ctx, i, t, digest)
		}
		return nil, nil
	case encrypted:
		if !v.introspects() {
			return nil, bad(BadType, "the token is encrypted")
		}
	case opaque:
	}
	if v.opts.Book != nil && !isDPoP && v.isInBook(ctx, raw) {
		return nil, nil
	}
	return v.verifyOpaque(ctx, raw, digest)
}

func (v *Verifier) introspects() bool {
	for _, i := range v.issuers {
		if i.asked != nil {
			return true
		}
	}
	return false
}

func (v *Verifier) isInBook(ctx context.Context, raw string) bool {
	_, err := v.opts.Book.Authenticate(ctx, access.Credentials{Token: raw})
	return err == nil
}

// verifySigned verifies a JWT of an issuer. What costs nothing comes first, and the signature
// before anything that says what the token has to be.
func (v *Verifier) verifySigned(ctx context.Context, i *issuer, t *token, digest access.Digest) (*verified, error) {
	if !v.algorithms.accepts(t.alg) {
		return nil, bad(BadAlgorithm, "the signature algorithm of the token is not accepted")
	}
	if f := checkType(t.typ, v.opts.StrictType); f != nil {
		return nil, f
	}
	k, err := v.verifySignature(ctx, i, t)
	if err != nil {
		return nil, err
	}
	if t.issuer != i.name() {
		return nil, bad(UnknownIssuer, "the issuer of the token differs from that of its metadata")
	}
	when, f := spanOf(t.claims)
	if f == nil {
		f = when.check(time.Now(), v.opts.Leeway)
	}
	if f != nil {
		return nil, f
	}
	ends := when.to.Add(v.opts.Leeway)
	return v.accept(i, t.claims, digest, &verified{key: k, until: ends, lease: access.NewLease(ends, ends, nil)})
}

// verifySignature returns the issuer's key that signed the token. A token that names no key
// may be signed with one that is too new, so the keys are looked at once more.
func (v *Verifier) verifySignature(ctx context.Context, i *issuer, t *token) (*key, error) {
	for start := time.Now(); ; {
		found, err := i.keys.find(ctx, t.kid, t.alg)
		if err != nil {
			return nil, err
		}
		v.counts.verified.Add(1)
		if k := v.algorithms.verify(t.raw, found); k != nil {
			return k, nil
		}
		began, err := start, error(nil)
		if t.kid == "" {
			began, err = i.keys.look(ctx)
		}
		if err != nil || !began.After(start) {
			return nil, bad(BadSignature, "the signature of the token is wrong")
		}
		start = time.Now()
	}
}

// accept checks the claims that signed and introspected tokens share, and puts the token into
// the cache.
func (v *Verifier) accept(i *issuer, claims map[string]any, digest access.Digest, e *verified) (*verified, error) {
	sub, f := subjectOf(claims)
	if f == nil {
		f = checkAudience(claims, v.resource, i.opts.Audiences)
	}
	if f == nil {
		e.bound, f = bindingOf(claims)
	}
	if f != nil {
		return nil, f
	}
	e.subject = access.Subject{Issuer: i.name(), Name: sub}
	e.facts, f = factsOf(i, e.subject, claims)
	if f != nil {
		return nil, f
	}
	v.identify(e)
	v.tokens.put(&digest, e, time.Now())
	return e, nil
}

// verifyOpaque introspects a token at the issuers that are asked about such tokens.
func (v *Verifier) verifyOpaque(ctx context.Context, raw string, digest access.Digest) (*verified, error) {
	if v.inactive.has(digest, time.Now()) {
		return nil, bad(Inactive, "the token is not active")
	}
	var last error
	for _, i := range v.issuers {
		if i.asked == nil {
			continue
		}
		e, err := v.introspect(ctx, i, raw, digest)
		if err == nil {
			return e, nil
		}
		last = worse(last, err)
	}
	var f *fault
	if errors.As(last, &f) {
		v.inactive.add(digest, time.Now())
		v.forget(&digest)
	}
	return nil, last // nil where no issuer is asked
}

// worse keeps the error that says more: that an issuer could not be asked, or what is wrong
// with an active token.
func worse(a, b error) error {
	var down *access.Unavailable
	var f *fault
	if errors.As(a, &down) || errors.As(b, &f) && f.reason == Inactive && a != nil {
		return a
	}
	return b
}

// forget ends a token that its issuer has revoked, and the streams that depend on it.
func (v *Verifier) forget(digest *access.Digest) {
	if e := v.tokens.get(digest); e != nil {
		v.tokens.drop(digest)
		e.lease.End()
	}
}
