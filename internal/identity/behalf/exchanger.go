// SPDX-License-Identifier: Apache-2.0

// Package behalf makes the credentials with which the backend is called in the name of
// a caller.
//
// An [Exchanger] exchanges the caller's access token for one for the backend (RFC 8693).
// A [Signer] signs a short JWT that names the caller. Both return the value of the
// Authorization header of a call, or a canonical error, and both keep what they made in
// a bounded cache. They are safe for concurrent use.
//
// The caller's own token never reaches the backend. [WithToken] puts it into the context
// of a request for an Exchanger alone: nothing else can read it, and it is dropped when
// the request ends. No String method, error or log line of this package shows a token.
package behalf

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// Token types (RFC 8693, section 3).
const (
	typeAccessToken  = "urn:ietf:params:oauth:token-type:access_token"  //nolint:gosec // a name
	typeRefreshToken = "urn:ietf:params:oauth:token-type:refresh_token" //nolint:gosec // a name
)

// Bounds that no setting changes.
const (
	// maxExchanges bounds the exchanges under way; others wait for their turn.
	maxExchanges = 64
	// rejectedFor is how long a rejection is remembered, so that an agent in a loop does
	// not become load for the authorization server.
	rejectedFor = 5 * time.Second
	// unknownLife is the lifetime of a token whose response does not say it.
	unknownLife = time.Minute
	// maxLife bounds how long a token is kept, whatever its response says.
	maxLife = time.Hour
)

// Exchanger exchanges the access tokens of callers for tokens for the backend. Make one
// with [NewExchanger] and close it.
type Exchanger struct {
	config *configv1.TokenExchange
	// onMissing is for callers without a token that can be exchanged.
	onMissing onMissing
	// challenge is the value of WWW-Authenticate for callers whose token is rejected; "" is that of a sidecar without OAuth.
	challenge string
	log       *zap.Logger // bounded
	client    *http.Client
	secret    atomic.Pointer[string]
	tokens    *identity.Cache[digest, issued]
	flights   singleflight.Group
	turns     chan struct{}
	away      away
	counts    exchangeCounts
	base      context.Context //nolint:containedctx // ends with Close; an exchange outlives the call that began it
	stop      context.CancelFunc
	closing   sync.Once
}

// digest identifies a token and what it is exchanged for. It is all that a cache has of
// a caller's token.
type digest [sha256.Size]byte

// issued is the outcome of an exchange: the header's value, or a rejection.
type issued struct {
	authorization string
	rejected      *rejection
}

// NewExchanger reads the client secret and the CAs. challenge is the value of WWW-Authenticate for callers whose token is
// rejected; "" is that of a sidecar without OAuth. log receives failures, at most ten a second.
func NewExchanger(i *configv1.BackendIdentity, challenge string, log *zap.Logger) (*Exchanger, error) {
	c := i.GetExchange()
	if err := CheckURL(c.GetTokenUrl()); err != nil {
		return nil, err
	}
	client, err := newClient(c.GetCaFile(), c.GetTimeout().AsDuration())
	if err != nil {
		return nil, err
	}
	x := &Exchanger{
		config: c, onMissing: onMissing(i.GetOnMissing()), challenge: challenge, log: loglimit.New(log), client: client,
		tokens: identity.NewCache[digest, issued](int(c.GetMaxTokens())), turns: make(chan struct{}, maxExchanges),
	}
	if _, err := x.Reload(); err != nil {
		return nil, err
	}
	x.base, x.stop = context.WithCancel(context.Background())
	return x, nil
}

// Close ends exchanges under way and waits for them.
func (x *Exchanger) Close() {
	x.stop()
	x.closing.Do(func() {
		for range maxExchanges {
			x.turns <- struct{}{} // they are given back at the end of an exchange
		}
	})
	x.client.CloseIdleConnections()
}

// Authorization returns the Authorization header with a token for the backend in the
// name of the caller in ctx.
func (x *Exchanger) Authorization(ctx context.Context) (string, *errmap.Error) {
	who, subject := identity.FromContext(ctx), tokenFrom(ctx)
	switch issuer := who.Facts().Issuer; {
	case subject == "" || issuer == "":
		return x.onMissing.missing(x.counts.missing, "the backend is called with a token from a token exchange, "+
			"and this caller has no OAuth access token to exchange")
	case len(x.config.GetIssuers()) > 0 && !slices.Contains(x.config.GetIssuers(), issuer):
		return x.onMissing.missing(x.counts.missing, "tokens of the caller's issuer are not exchanged for the backend "+
			"(backend.identity.exchange.issuers)")
	}
	got, err := x.issued(ctx, subject)
	switch {
	case err != nil:
		return "", x.unavailable(ctx, err)
	case got.rejected != nil:
		return "", got.rejected.canonical(x.challenge)
	}
	return got.authorization, nil
}

// issued returns the outcome of an exchange, from the cache, from an exchange under way,
// or from a new one. It stops waiting when ctx ends.
func (x *Exchanger) issued(ctx context.Context, subject string) (issued, error) {
	key := x.digest(subject)
	if got, ok := x.tokens.Get(key, time.Now()); ok {
		x.counts.hits.Add(1)
		return got, nil
	}
	outcome := x.flights.DoChan(string(key[:]), func() (any, error) {
		if got, ok := x.tokens.Get(key, time.Now()); ok { // another exchange has just ended
			return got, nil
		}
		if x.base.Err() != nil {
			return nil, errClosed
		}
		ctx, cancel := context.WithTimeout(x.base, x.config.GetTimeout().AsDuration())
		defer cancel()
		got, life, err := x.exchange(ctx, subject)
		if now := time.Now(); err == nil {
			x.tokens.Put(key, got, now.Add(life), now)
		}
		return got, err
	})
	select {
	case o := <-outcome:
		got, _ := o.Val.(issued)
		return got, o.Err
	case <-ctx.Done():
		return issued{}, context.Cause(ctx)
	}
}

var errClosed = errors.New("the sidecar is shutting down")

// exchange makes one exchange, unless the authorization server is known to be away.
func (x *Exchanger) exchange(ctx context.Context, subject string) (issued, time.Duration, error) {
	select {
	case x.turns <- struct{}{}:
		defer func() { <-x.turns }()
	case <-ctx.Done():
		return issued{}, 0, &awayError{why: "too many exchanges are under way"}
	}
	if wait := x.away.wait(time.Now()); wait > 0 {
		x.counts.spared.Add(1)
		return issued{}, 0, &awayError{why: "it did not answer shortly before", after: wait}
	}
	start := time.Now()
	got, life, err := x.ask(ctx, subject)
	x.counts.nanos.Add(int64(time.Since(start)))
	x.away.saw(err, time.Now())
	x.counts.count(got, err)
	x.note(got, err)
	return got, life, err
}

// note logs a failure. What is logged is the code of the failure and never a token.
func (x *Exchanger) note(got issued, err error) {
	switch {
	case err != nil:
		x.log.Warn("token exchange failed", zap.String(logkey.URL, x.config.GetTokenUrl()), logkey.Error(err))
	case got.rejected != nil:
		x.log.Warn("token exchange rejected", zap.String(logkey.URL, x.config.GetTokenUrl()), zap.String(logkey.ErrorType, got.rejected.code))
	}
}

// digest identifies what a token is exchanged for.
func (x *Exchanger) digest(subject string) digest {
	h := sha256.New()
	_, _ = h.Write([]byte(subject)) // a hash never fails
	for _, list := range [...][]string{x.config.GetAudience(), x.config.GetResource(), x.config.GetScope()} {
		_, _ = h.Write([]byte("\x00" + strings.Join(list, " ")))
	}
	return digest(h.Sum(nil))
}

const (
	// awayAfter is the number of consecutive failures after which the authorization server
	// counts as away.
	awayAfter = 3
	// awayMin and awayMax bound the pause before the next attempt.
	awayMin = time.Second
	awayMax = 10 * time.Second
)

// away knows whether the authorization server is away. While it is, calls fail at once
// instead of waiting for a timeout each, and one attempt per pause finds out.
type away struct {
	mu     sync.Mutex
	failed int
	until  time.Time
}

// wait returns how long nothing is to be attempted; 0 admits an attempt.
func (a *away) wait(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed < awayAfter {
		return 0
	}
	if wait := a.until.Sub(now); wait > 0 {
		return wait
	}
	a.until = now.Add(a.pause()) // the others wait for this attempt
	return 0
}

// saw takes note of how an attempt ended.
func (a *away) saw(err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.failed = 0
		return
	}
	a.failed++
	pause := a.pause()
	var said *awayError
	if errors.As(err, &said) {
		pause = max(pause, min(said.after, awayMax))
	}
	a.until = now.Add(pause)
}

func (a *away) pause() time.Duration {
	pause := awayMin
	for range max(a.failed-awayAfter, 0) {
		if pause *= 2; pause >= awayMax {
			return awayMax
		}
	}
	return pause
}

// awayError says that the authorization server gave no usable answer.
type awayError struct {
	why   string
	after time.Duration // when to try again; 0 if unknown
	cause error
}

func (e *awayError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %v", e.why, e.cause)
	}
	return e.why
}

func (e *awayError) Unwrap() error { return e.cause }

// unavailable is the canonical error of an exchange without an outcome.
func (x *Exchanger) unavailable(ctx context.Context, err error) *errmap.Error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, err)
	}
	after, why := awayMin, "the exchange failed"
	var said *awayError
	if errors.As(err, &said) {
		after, why = max(said.after, awayMin), said.why
	}
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(after),
		errmap.Message("Tool service unavailable: the authorization server gave no token for the backend: "+why))
}

// Stats are the counts of an [Exchanger] or a [Signer] since its start.
type Stats struct {
	// Issued, Rejected and Unavailable count exchanges by their end.
	Issued, Rejected, Unavailable uint64
	// Spared counts exchanges that failed at once because the server was away.
	Spared uint64
	// Signed counts signatures.
	Signed uint64
	// CacheHits counts calls that took a token or a signature from the cache, Cached is the
	// number of entries in it, and MaxCached its limit.
	CacheHits         uint64
	Cached, MaxCached int
	// Missing counts calls that were refused because the backend could not be called in
	// the caller's name.
	Missing uint64
	// Seconds is the total duration of exchanges.
	Seconds float64
}

// With returns the sums of two snapshots.
func (s Stats) With(o Stats) Stats {
	return Stats{
		Issued: s.Issued + o.Issued, Rejected: s.Rejected + o.Rejected, Unavailable: s.Unavailable + o.Unavailable, Spared: s.Spared + o.Spared,
		Signed: s.Signed + o.Signed, CacheHits: s.CacheHits + o.CacheHits, Cached: s.Cached + o.Cached, MaxCached: s.MaxCached + o.MaxCached,
		Missing: s.Missing + o.Missing, Seconds: s.Seconds + o.Seconds,
	}
}

type exchangeCounts struct {
	issued, rejected, unavailable, spared, hits, none atomic.Uint64
	nanos                                             atomic.Int64
}

func (c *exchangeCounts) missing() { c.none.Add(1) }

func (c *exchangeCounts) count(got issued, err error) {
	switch {
	case err != nil:
		c.unavailable.Add(1)
	case got.rejected != nil:
		c.rejected.Add(1)
	default:
		c.issued.Add(1)
	}
}

// Stats returns the counts.
func (x *Exchanger) Stats() Stats {
	c := &x.counts
	return Stats{
		Issued: c.issued.Load(), Rejected: c.rejected.Load(), Unavailable: c.unavailable.Load(), Spared: c.spared.Load(),
		CacheHits: c.hits.Load(), Cached: x.tokens.Len(), MaxCached: int(x.config.GetMaxTokens()), Missing: c.none.Load(),
		Seconds: time.Duration(c.nanos.Load()).Seconds(),
	}
}

// onMissing is what happens to the call of a caller in whose name the backend cannot be called, because it has no access
// token or no identity: "none" calls the backend without credentials for the caller, otherwise the call is refused.
type onMissing string

// missing is the answer for a caller without what is needed.
func (m onMissing) missing(refused func(), why string) (string, *errmap.Error) {
	if m == "none" {
		return "", nil
	}
	refused()
	return "", errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: "+why))
}
