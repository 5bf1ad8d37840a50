// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/loglimit"
)

// Verifier authenticates callers by access tokens. Make one with [New], and keep it running
// with [Verifier.Run].
type Verifier struct {
	opts       Options
	algorithms algorithms
	origin     string // of the resource
	resource   string // without a trailing slash
	metadata   string // the URL of the resource's metadata

	issuers []*issuer
	byURL   map[string]*issuer

	tokens   *cache
	flights  singleflight.Group
	inactive inactive
	replays  *replays
	nonces   *nonces // nil where nonces are off
	counts   counts

	life context.Context //nolint:containedctx // what runs in the background belongs to no request
	stop context.CancelFunc
}

// New returns a Verifier. It fetches nothing before [Verifier.Run] or the first token.
func New(o Options) (*Verifier, error) {
	o = o.filled()
	o.Log = loglimit.New(o.Log)
	resource, err := checkURL(o.Resource)
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", o.Resource, err)
	}
	v := &Verifier{
		opts: o, algorithms: algorithmsOf(o.Algorithms), origin: resource.Scheme + "://" + resource.Host,
		resource: route(o.Resource), metadata: MetadataURL(o.Resource), byURL: map[string]*issuer{},
		tokens: newCache(o.MaxTokens), replays: newReplays(o.DPoP.MaxProofs, o.DPoP.MaxAge),
	}
	if o.DPoP.Nonces {
		v.nonces = newNonces(o.DPoP.MaxAge)
	}
	v.life, v.stop = context.WithCancel(context.Background())
	return v, v.openIssuers()
}

// Check returns the error that New would return.
func Check(o Options) error {
	v, err := New(o)
	if v != nil {
		v.stop()
	}
	return err
}

func (v *Verifier) openIssuers() error {
	if len(v.opts.Issuers) == 0 {
		return errors.New("no issuer")
	}
	for _, o := range v.opts.Issuers {
		i, err := newIssuer(v.life, o, &v.opts, &v.counts)
		if err != nil {
			return err
		}
		if v.byURL[route(o.URL)] != nil {
			return fmt.Errorf("issuer %q is there twice", o.URL)
		}
		v.byURL[route(o.URL)] = i
		v.issuers = append(v.issuers, i)
	}
	return nil
}

// Run fetches the keys of all issuers in the background until ctx ends. No token can be
// verified afterwards that is not in the cache.
func (v *Verifier) Run(ctx context.Context) {
	defer v.stop()
	end := context.AfterFunc(ctx, v.stop) // fetches that run end with ctx
	defer end()
	var all sync.WaitGroup
	for _, i := range v.issuers {
		all.Go(func() { i.run(ctx, v.opts.RefreshInterval, v.opts.FetchInterval) })
	}
	all.Wait()
}

// Authenticate implements [access.Authenticator].
func (v *Verifier) Authenticate(ctx context.Context, shown access.Credentials) (*access.Identity, error) {
	if shown.Token == "" {
		return v.withoutToken(ctx, shown)
	}
	digest := sha256.Sum256([]byte(shown.Token))
	e, err := v.lookup(ctx, &shown, digest)
	if e == nil || err != nil {
		return v.otherwise(ctx, &shown, err)
	}
	if err := v.checkRequest(e, &shown, digest); err != nil {
		return v.otherwise(ctx, &shown, err)
	}
	return e.who, nil
}

// withoutToken asks for a certificate.
func (v *Verifier) withoutToken(ctx context.Context, shown access.Credentials) (*access.Identity, error) {
	if v.opts.NoToken == nil {
		return nil, v.Refuse(access.Missing, shown)
	}
	who, err := v.opts.NoToken.Authenticate(ctx, shown)
	var refused *access.Refusal
	if errors.As(err, &refused) {
		return nil, v.Refuse(refused.Reason, shown)
	}
	return who, err
}

// otherwise ends the authentication of a token that is no issuer's, or not a good one.
func (v *Verifier) otherwise(ctx context.Context, shown *access.Credentials, err error) (*access.Identity, error) {
	var f *fault
	switch {
	case err == nil: // not for an issuer, and well formed
		return v.byBook(ctx, shown)
	case errors.As(err, &f):
		return nil, v.refuseToken(f, shown)
	}
	return nil, err
}

// byBook asks the callers file.
func (v *Verifier) byBook(ctx context.Context, shown *access.Credentials) (*access.Identity, error) {
	if v.opts.Book != nil && !shown.DPoP {
		who, err := v.opts.Book.Authenticate(ctx, access.Credentials{Token: shown.Token})
		if err == nil {
			return who, nil
		}
	}
	return nil, v.refuseToken(bad(UnknownIssuer, "the token is unknown, or of an unknown issuer"), shown)
}

// lookup finds a token in the cache, or verifies it. It returns nil for a token that is no
// issuer's.
func (v *Verifier) lookup(ctx context.Context, shown *access.Credentials, digest access.Digest) (*verified, error) {
	now := time.Now()
	e := v.tokens.get(&digest)
	if e != nil && e.isGood(now) {
		v.counts.hits.Add(1)
		return v.claimed(e, &digest, now), nil
	}
	if len(shown.Token) > v.opts.MaxTokenBytes || !isB64Token(shown.Token) {
		return nil, v.Refuse(access.Malformed, *shown)
	}
	v.counts.misses.Add(1)
	return v.once(ctx, shown, digest)
}

// once verifies a token. Requests that bring the same one meanwhile share the outcome.
func (v *Verifier) once(ctx context.Context, shown *access.Credentials, digest access.Digest) (*verified, error) {
	raw, isDPoP := shown.Token, shown.DPoP
	outcome := v.flights.DoChan(string(digest[:]), func() (any, error) {
		if e := v.tokens.get(&digest); e != nil && e.isGood(time.Now()) {
			return e, nil // another flight has just ended
		}
		e, err := v.verify(v.life, raw, digest, isDPoP)
		return e, err
	})
	select {
	case o := <-outcome:
		e, _ := o.Val.(*verified)
		return e, o.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// checkRequest checks what must hold for each request.
func (v *Verifier) checkRequest(e *verified, shown *access.Credentials, digest access.Digest) error {
	if f := e.bound.checkScheme(shown, v.opts.DPoP.Required); f != nil {
		return f
	}
	if f := e.bound.checkCertificate(shown); f != nil {
		return f
	}
	if e.bound.jkt == "" {
		return nil
	}
	p, f := v.verifyProof(shown, e.bound.jkt, encode(digest[:]))
	if f != nil {
		return f
	}
	fresh, err := v.replays.add(p.jkt, p.jti, p.at, time.Now())
	if err != nil {
		return err
	}
	if !fresh {
		return bad(BadProof, "the proof was used before")
	}
	v.counts.proofs.Add(1)
	return nil
}
