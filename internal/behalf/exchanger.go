// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/loglimit"
)

// Token types (RFC 8693, section 3).
const (
	TypeAccessToken  = "urn:ietf:params:oauth:token-type:access_token"  //nolint:gosec // a name
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

// ExchangeOptions configure an [Exchanger].
type ExchangeOptions struct {
	// URL is the token endpoint: https, or http on loopback.
	URL string
	// ClientID and ClientSecretFile authenticate the sidecar. Without a file, the client
	// is public. SecretInBody sends them in the body (client_secret_post) instead of the
	// Authorization header.
	ClientID, ClientSecretFile string
	SecretInBody               bool
	// Audiences, Resources and Scopes are what the token is requested for.
	Audiences, Resources, Scopes []string
	// Issuers are the issuers whose tokens are exchanged; empty means all that the sidecar
	// accepts. The token of any other issuer is not sent to URL.
	Issuers []string
	// Challenge is the value of WWW-Authenticate for callers whose token is rejected; "" is
	// that of a sidecar without OAuth.
	Challenge string
	// SubjectTokenType and RequestedTokenType are token types; "" is [TypeAccessToken].
	SubjectTokenType, RequestedTokenType string
	// CAFile is a PEM file of CAs for URL; "" means the system's.
	CAFile string
	// OnMissing is for callers without a token that can be exchanged.
	OnMissing OnMissing
	// Timeout bounds one exchange, MaxTokens the cache, MaxResponseBytes a response. Values
	// that are not positive have the defaults of the configuration.
	Timeout          time.Duration
	MaxTokens        int
	MaxResponseBytes int64
	// Log receives failures, at most ten a second; nil discards.
	Log *zap.Logger
}

// Exchanger exchanges the access tokens of callers for tokens for the backend. Make one
// with [NewExchanger] and close it.
type Exchanger struct {
	opts    ExchangeOptions
	client  *http.Client
	secret  atomic.Pointer[string]
	tokens  *cache[digest, issued]
	mu      sync.Mutex
	flights map[digest]*flight
	turns   chan struct{}
	away    away
	counts  exchangeCounts
	base    context.Context //nolint:containedctx // ends with Close; an exchange outlives the call that began it
	stop    context.CancelFunc
	running sync.WaitGroup
}

// digest identifies a token and what it is exchanged for. It is all that a cache has of
// a caller's token.
type digest [sha256.Size]byte

// issued is the outcome of an exchange: the header's value, or a rejection.
type issued struct {
	authorization string
	rejected      *rejection
}

// flight is an exchange under way.
type flight struct {
	done chan struct{}
	got  issued
	err  error
}

// NewExchanger reads the client secret and the CAs.
func NewExchanger(o ExchangeOptions) (*Exchanger, error) {
	defaults.Fill(&o.Timeout, defaults.ExchangeTimeout)
	defaults.Fill(&o.MaxTokens, defaults.ExchangeMaxTokens)
	defaults.Fill(&o.MaxResponseBytes, defaults.ExchangeMaxResponseBytes)
	o.SubjectTokenType = cmp.Or(o.SubjectTokenType, TypeAccessToken)
	o.RequestedTokenType = cmp.Or(o.RequestedTokenType, TypeAccessToken)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Log = loglimit.New(o.Log)
	if err := CheckURL(o.URL); err != nil {
		return nil, err
	}
	client, err := newClient(o.CAFile, o.Timeout)
	if err != nil {
		return nil, err
	}
	x := &Exchanger{
		opts: o, client: client, tokens: newCache[digest, issued](o.MaxTokens), flights: map[digest]*flight{},
		turns: make(chan struct{}, maxExchanges),
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
	x.running.Wait()
	x.client.CloseIdleConnections()
}

// Authorization returns the Authorization header with a token for the backend in the
// name of the caller in ctx.
func (x *Exchanger) Authorization(ctx context.Context) (string, *errmap.Error) {
	who, subject := access.FromContext(ctx), tokenFrom(ctx)
	switch issuer := who.Facts().Issuer; {
	case subject == "" || issuer == "":
		return x.opts.OnMissing.missing(x.counts.missing, "the backend is called with a token from a token exchange, "+
			"and this caller has no OAuth access token to exchange")
	case len(x.opts.Issuers) > 0 && !slices.Contains(x.opts.Issuers, issuer):
		return x.opts.OnMissing.missing(x.counts.missing, "tokens of the caller's issuer are not exchanged for the backend "+
			"(backend.identity.exchange.issuers)")
	}
	got, err := x.issued(ctx, subject)
	switch {
	case err != nil:
		return "", x.unavailable(ctx, err)
	case got.rejected != nil:
		return "", got.rejected.canonical(x.opts.Challenge)
	}
	return got.authorization, nil
}

// issued returns the outcome of an exchange, from the cache, from an exchange under way,
// or from a new one. It stops waiting when ctx ends.
func (x *Exchanger) issued(ctx context.Context, subject string) (issued, error) {
	key := x.digest(subject)
	if got, ok := x.tokens.get(key, time.Now()); ok {
		x.counts.hits.Add(1)
		return got, nil
	}
	f := x.join(key, subject)
	select {
	case <-f.done:
		return f.got, f.err
	case <-ctx.Done():
		return issued{}, context.Cause(ctx)
	}
}

// join returns the exchange under way for a key, or begins one.
func (x *Exchanger) join(key digest, subject string) *flight {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.flights[key]; f != nil {
		return f
	}
	f := &flight{done: make(chan struct{})}
	if got, ok := x.tokens.get(key, time.Now()); ok { // it ended meanwhile
		f.got = got
		close(f.done)
		return f
	}
	if x.base.Err() != nil {
		f.err = errClosed
		close(f.done)
		return f
	}
	x.flights[key] = f
	x.running.Go(func() { x.fly(key, f, subject) })
	return f
}

// fly makes an exchange and tells those who wait.
func (x *Exchanger) fly(key digest, f *flight, subject string) {
	var life time.Duration
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		now := time.Now()
		if f.err == nil {
			x.tokens.put(key, f.got, now.Add(life), now)
		}
		delete(x.flights, key)
		close(f.done)
	}()
	f.err = errPanicked // until it is known
	ctx, cancel := context.WithTimeout(x.base, x.opts.Timeout)
	defer cancel()
	f.got, life, f.err = x.exchange(ctx, subject)
}

var (
	errClosed   = errors.New("the sidecar is shutting down")
	errPanicked = errors.New("the exchange ended without a result")
)

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
	x.counts.took(time.Since(start))
	x.away.saw(err, time.Now())
	x.counts.count(got, err)
	x.note(got, err)
	return got, life, err
}

// note logs a failure. What is logged is the code of the failure and never a token.
func (x *Exchanger) note(got issued, err error) {
	switch {
	case err != nil:
		x.opts.Log.Warn("token exchange failed", zap.String(logkey.URL, x.opts.URL), logkey.Error(err))
	case got.rejected != nil:
		x.opts.Log.Warn("token exchange rejected", zap.String(logkey.URL, x.opts.URL), zap.String(logkey.ErrorType, got.rejected.code))
	}
}

// digest identifies what a token is exchanged for.
func (x *Exchanger) digest(subject string) digest {
	h := sha256.New()
	_, _ = h.Write([]byte(subject)) // a hash never fails
	for _, list := range [...][]string{x.opts.Audiences, x.opts.Resources, x.opts.Scopes} {
		_, _ = h.Write([]byte("\x00" + strings.Join(list, " ")))
	}
	return digest(h.Sum(nil))
}
