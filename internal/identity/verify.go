// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// Verifier authenticates callers by access tokens. Make one with [NewVerifier], and keep it running
// with [Verifier.Run].
type Verifier struct {
	opts       VerifierOptions
	algorithms algorithms
	origin     string // of the resource
	resource   string // without a trailing slash
	metadata   string // the URL of the resource's metadata

	issuers []*issuer
	byURL   map[string]*issuer

	tokens   *cache
	flights  singleflight.Group
	inactive *Cache[Digest, struct{}] // tokens that their issuers do not accept
	replays  *replays
	nonces   *nonces // nil where nonces are off
	counts   counts

	life context.Context //nolint:containedctx // what runs in the background belongs to no request
	stop context.CancelFunc
}

// NewVerifier returns a Verifier. It fetches nothing before [Verifier.Run] or the first token.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	o = o.filled()
	o.Log = loglimit.New(o.Log)
	resource, err := checkURL(o.Resource)
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", o.Resource, err)
	}
	v := &Verifier{
		opts: o, algorithms: algorithmsOf(o.Algorithms), origin: resource.Scheme + "://" + resource.Host,
		resource: route(o.Resource), metadata: MetadataURL(o.Resource), byURL: map[string]*issuer{},
		tokens: newCache(o.MaxTokens), inactive: NewCache[Digest, struct{}](maxInactive), replays: newReplays(o.DPoP.MaxProofs, o.DPoP.MaxAge),
	}
	if o.DPoP.Nonces {
		v.nonces = newNonces(o.DPoP.MaxAge)
	}
	v.life, v.stop = context.WithCancel(context.Background())
	return v, v.openIssuers()
}

// checkVerifier returns the error that New would return.
func checkVerifier(o VerifierOptions) error {
	v, err := NewVerifier(o)
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

// Authenticate implements [Authenticator].
func (v *Verifier) Authenticate(ctx context.Context, shown Credentials) (*Identity, error) {
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
func (v *Verifier) withoutToken(ctx context.Context, shown Credentials) (*Identity, error) {
	if v.opts.NoToken == nil {
		return nil, v.Refuse(Missing, shown)
	}
	who, err := v.opts.NoToken.Authenticate(ctx, shown)
	var refused *Refusal
	if errors.As(err, &refused) {
		return nil, v.Refuse(refused.Reason, shown)
	}
	return who, err
}

// otherwise ends the authentication of a token that is no issuer's, or not a good one.
func (v *Verifier) otherwise(ctx context.Context, shown *Credentials, err error) (*Identity, error) {
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
func (v *Verifier) byBook(ctx context.Context, shown *Credentials) (*Identity, error) {
	if v.opts.Book != nil && !shown.DPoP {
		who, err := v.opts.Book.Authenticate(ctx, Credentials{Token: shown.Token})
		if err == nil {
			return who, nil
		}
	}
	return nil, v.refuseToken(bad(UnknownIssuer, "the token is unknown, or of an unknown issuer"), shown)
}

// lookup finds a token in the cache, or verifies it. It returns nil for a token that is no
// issuer's.
func (v *Verifier) lookup(ctx context.Context, shown *Credentials, digest Digest) (*verified, error) {
	now := time.Now()
	e := v.tokens.get(&digest)
	if e != nil && e.isGood(now) {
		v.counts.hits.Add(1)
		return v.claimed(e, &digest, now), nil
	}
	if len(shown.Token) > v.opts.MaxTokenBytes || !isB64Token(shown.Token) {
		return nil, v.Refuse(Malformed, *shown)
	}
	v.counts.misses.Add(1)
	return v.once(ctx, shown, digest)
}

// once verifies a token. Requests that bring the same one meanwhile share the outcome.
func (v *Verifier) once(ctx context.Context, shown *Credentials, digest Digest) (*verified, error) {
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
func (v *Verifier) checkRequest(e *verified, shown *Credentials, digest Digest) error {
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

// verify verifies a token that is not in the cache, or not good there any more. It returns nil
// without an error for a token that is no issuer's.
func (v *Verifier) verify(ctx context.Context, raw string, digest Digest, isDPoP bool) (*verified, error) {
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
	if v.opts.Book != nil && !isDPoP {
		if _, err := v.opts.Book.Authenticate(ctx, Credentials{Token: raw}); err == nil {
			return nil, nil
		}
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

// verifySigned verifies a JWT of an issuer. What costs nothing comes first, and the signature
// before anything that says what the token has to be.
func (v *Verifier) verifySigned(ctx context.Context, i *issuer, t *token, digest Digest) (*verified, error) {
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
	return v.accept(i, t.claims, digest, &verified{key: k, until: ends, lease: newLease(ends, ends, nil)})
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
func (v *Verifier) accept(i *issuer, claims map[string]any, digest Digest, e *verified) (*verified, error) {
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
	e.subject = Subject{Issuer: i.name(), Name: sub}
	e.facts, f = factsOf(i, e.subject, claims)
	if f != nil {
		return nil, f
	}
	v.identify(e)
	v.tokens.put(&digest, e, time.Now())
	return e, nil
}

// verifyOpaque introspects a token at the issuers that are asked about such tokens.
func (v *Verifier) verifyOpaque(ctx context.Context, raw string, digest Digest) (*verified, error) {
	if _, isInactive := v.inactive.Get(digest, time.Now()); isInactive {
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
		now := time.Now()
		v.inactive.Put(digest, struct{}{}, now.Add(inactiveFor), now)
		v.forget(&digest)
	}
	return nil, last // nil where no issuer is asked
}

// worse keeps the error that says more: that an issuer could not be asked, or what is wrong
// with an active token.
func worse(a, b error) error {
	var down *unavailableError
	var f *fault
	if errors.As(a, &down) || errors.As(b, &f) && f.reason == Inactive && a != nil {
		return a
	}
	return b
}

// forget ends a token that its issuer has revoked, and the streams that depend on it.
func (v *Verifier) forget(digest *Digest) {
	if e := v.tokens.get(digest); e != nil {
		v.tokens.drop(digest)
		e.lease.End()
	}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// algorithms are the accepted signature algorithms. A key decides what it can verify; the list
// decides what is tried at all. It never has none or HMAC in it.
type algorithms []jose.SignatureAlgorithm

func algorithmsOf(names []string) algorithms {
	out := make(algorithms, len(names))
	for i, name := range names {
		out[i] = jose.SignatureAlgorithm(name)
	}
	return out
}

func (a algorithms) accepts(alg string) bool { return slices.Contains(a, jose.SignatureAlgorithm(alg)) }

// verify returns the key that verifies a token's signature, nil if none does.
func (a algorithms) verify(raw string, keys []*key) *key {
	signed, err := jose.ParseSignedCompact(raw, a)
	if err != nil {
		return nil
	}
	for _, k := range keys {
		if _, err := signed.Verify(k.Key); err == nil {
			return k
		}
	}
	return nil
}

// VerifierOptions configure a [Verifier]. Zero numbers and durations are the defaults.
type VerifierOptions struct {
	// Issuers are the authorization servers. At least one.
	Issuers []Issuer
	// Resource is the URL that clients use for the sidecar, as the operator wrote it.
	Resource string
	// Scope returns the scope parameter of 401 challenges of now, "" for none; nil for none.
	Scope func() string
	// Leeway is the tolerance between the clocks of issuer and sidecar; negative for none.
	Leeway time.Duration
	// Algorithms are the accepted signature algorithms; empty for [Algorithms].
	Algorithms []string
	// StrictType accepts only tokens of type at+jwt.
	StrictType bool
	DPoP       DPoP
	// Grant is what OAuth callers may do. Its name is not used.
	Grant Grant

	// Book is the callers file; nil without one. It decides about tokens that are no issuer's,
	// and its entries may claim subjects of issuers.
	Book *Book
	// NoToken authenticates requests without a token, by their certificates; nil refuses them.
	NoToken Authenticator

	// MaxTokens bounds the cache of verified tokens, MaxTokenBytes a token.
	MaxTokens, MaxTokenBytes int
	// RefreshInterval is how often keys are fetched. FetchInterval is the minimum time between
	// two fetches that tokens cause.
	RefreshInterval, FetchInterval time.Duration
	// FetchTimeout and MaxFetchBytes bound a request to an issuer and its response.
	FetchTimeout  time.Duration
	MaxFetchBytes int

	// Log is bounded by the package; nil discards.
	Log *zap.Logger
}

// Issuer is one authorization server.
type Issuer struct {
	// URL is the issuer. JWKS, if set, is the URL of its keys, and replaces discovery.
	URL, JWKS string
	// Audiences are accepted besides the resource.
	Audiences []string
	// GroupsClaim has the groups. The values of RolesClaim count as scopes. Both are a name, or
	// a path of names with dots; empty for none.
	GroupsClaim, RolesClaim string
	// Introspection is nil if tokens that are no JWTs are refused.
	Introspection *Introspection
	// CAs are trusted to sign the issuer's certificate; nil for the system's.
	CAs *x509.CertPool
}

// Introspection is the introspection endpoint of an issuer.
type Introspection struct {
	// URL is empty for that of the issuer's metadata.
	URL, ClientID string
	// Secret returns the client secret. It is called for each request.
	Secret func() (string, error)
	// TTL is how long a response is used at most.
	TTL time.Duration
	// MaxConcurrent bounds concurrent requests.
	MaxConcurrent int
}

// DPoP configures tokens that are bound to a key of the client (RFC 9449).
type DPoP struct {
	// Required refuses tokens that are not bound to a key.
	Required bool
	// Nonces requires a nonce of this process in every proof.
	Nonces bool
	// MaxAge is the maximum difference between the time of a proof and ours.
	MaxAge time.Duration
	// MaxProofs bounds the proofs that are remembered.
	MaxProofs int
}

// Algorithms returns all signature algorithms that can be accepted, which is the default.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func orElse[T comparable](given, otherwise T) T {
	var zero T
	if given == zero {
		return otherwise
	}
	return given
}

// filled returns the options with defaults.
func (o VerifierOptions) filled() VerifierOptions {
	o.Leeway = max(0, orElse(o.Leeway, defaults.OAuthLeeway))
	if len(o.Algorithms) == 0 {
		o.Algorithms = Algorithms()
	}
	o.MaxTokens = orElse(o.MaxTokens, defaults.OAuthMaxCachedTokens)
	o.MaxTokenBytes = orElse(o.MaxTokenBytes, defaults.OAuthMaxTokenBytes)
	o.RefreshInterval = orElse(o.RefreshInterval, defaults.OAuthKeyRefreshInterval)
	o.FetchInterval = orElse(o.FetchInterval, defaults.OAuthKeyFetchInterval)
	o.FetchTimeout = orElse(o.FetchTimeout, defaults.OAuthFetchTimeout)
	o.MaxFetchBytes = orElse(o.MaxFetchBytes, defaults.OAuthMaxFetchBytes)
	o.DPoP.MaxAge = orElse(o.DPoP.MaxAge, defaults.OAuthDpopMaxAge)
	o.DPoP.MaxProofs = orElse(o.DPoP.MaxProofs, defaults.OAuthDpopMaxProofs)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

// counts are what a Verifier counts.
type counts struct {
	hits, misses, verified               atomic.Uint64
	keyFetches, keyFetchesFailed         atomic.Uint64
	introspections, introspectionsFailed atomic.Uint64
	proofs                               atomic.Uint64
}

// VerifierStats are the counts of a [Verifier] since it was made, and what it holds now.
type VerifierStats struct {
	// Hits and Misses count tokens that were, or were not, in the cache.
	Hits, Misses uint64
	// Verified counts verified signatures of tokens, Proofs accepted DPoP proofs.
	Verified, Proofs uint64
	// KeyFetches and KeyFetchesFailed count requests for an issuer's keys.
	KeyFetches, KeyFetchesFailed uint64
	// Introspections and IntrospectionsFailed count introspection requests.
	Introspections, IntrospectionsFailed uint64
	// Cached is the number of tokens in the cache.
	Cached int
}

// Stats returns the counts.
func (v *Verifier) Stats() VerifierStats {
	c := &v.counts
	return VerifierStats{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Verified: c.verified.Load(), Proofs: c.proofs.Load(),
		KeyFetches: c.keyFetches.Load(), KeyFetchesFailed: c.keyFetchesFailed.Load(),
		Introspections: c.introspections.Load(), IntrospectionsFailed: c.introspectionsFailed.Load(),
		Cached: v.tokens.len(),
	}
}
