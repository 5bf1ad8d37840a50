// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// maxUnknownKids bounds the key ids of one issuer that are remembered as unknown.
	maxUnknownKids = 1024
	// unknownFor is how long a kid is taken to be unknown without another look.
	unknownFor = time.Minute
)

// issuerKeys are the keys of one issuer. All fetches go through it: at most one runs, and those that
// tokens cause keep an interval.
type issuerKeys struct {
	// life, when it ends, cancels the fetch that runs.
	life context.Context //nolint:containedctx // a fetch belongs to no request
	// fetch gets a set; it is bounded in time.
	fetch    func(ctx context.Context, before *keySet) (*keySet, error)
	interval time.Duration
	counts   *counts

	set atomic.Pointer[keySet]

	mu      sync.Mutex
	running chan struct{} // closed at the end of the fetch that runs; nil if none does
	began   time.Time     // the last fetch
	failed  error         // of the last fetch
	// unknown has key ids that the issuer did not publish lately.
	unknown *Cache[string, struct{}]
}

// find returns the keys that may have signed a token. The error is a fault of the token, or
// *unavailableError.
func (k *issuerKeys) find(ctx context.Context, kid, alg string) ([]*key, error) {
	if found := k.set.Load().find(kid, alg); len(found) > 0 {
		return found, nil
	}
	start := time.Now()
	if _, isUnknown := k.unknown.Get(kid, start); isUnknown {
		return nil, unknownKey()
	}
	for {
		began, err := k.look(ctx)
		if err != nil {
			return nil, err
		}
		if found := k.set.Load().find(kid, alg); len(found) > 0 {
			return found, nil
		}
		if start.Sub(began) < k.interval {
			if !began.Before(start) {
				now := time.Now()
				k.unknown.Put(kid, struct{}{}, now.Add(unknownFor), now) // what a dropped entry costs is a fetch, which has its own interval
			}
			return nil, unknownKey()
		}
		// The fetch had begun long before the token came: the key may be newer.
	}
}

func unknownKey() *fault { return bad(UnknownKey, "the key of the token is unknown") }

// look makes sure that the set is not older than the interval: it fetches, waits for a fetch
// that runs, or does nothing. It returns when the fetch began that the set is from.
func (k *issuerKeys) look(ctx context.Context) (began time.Time, err error) {
	k.mu.Lock()
	running := k.running
	if running == nil {
		if !k.began.IsZero() && time.Since(k.began) < k.interval {
			defer k.mu.Unlock()
			return k.began, k.verdict()
		}
		running = k.startFetch()
	}
	k.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return began, context.Cause(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.began, k.verdict()
}

// verdict is the outcome of the last fetch, for a token that needs it. The caller holds mu.
func (k *issuerKeys) verdict() error {
	if k.failed == nil {
		return nil
	}
	return &unavailableError{Retry: max(time.Second, time.Until(k.began.Add(k.interval))), Cause: k.failed}
}

// startFetch starts a fetch. It does not depend on the request that caused it. The caller holds mu.
func (k *issuerKeys) startFetch() chan struct{} {
	done := make(chan struct{})
	k.running, k.began = done, time.Now()
	go func() {
		set, err := k.fetch(k.life, k.set.Load())
		k.endFetch(set, err)
		close(done)
	}()
	return done
}

// endFetch takes what a fetch has brought. After an error the last good set stays.
func (k *issuerKeys) endFetch(set *keySet, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running, k.failed = nil, err
	if err != nil {
		k.counts.keyFetchesFailed.Add(1)
		return
	}
	k.counts.keyFetches.Add(1)
	k.set.Swap(set).replacedBy(set)
}

// refresh fetches regardless of the interval, unless a fetch runs, and waits for the end.
func (k *issuerKeys) refresh() error {
	k.mu.Lock()
	running := k.running
	if running == nil {
		running = k.startFetch()
	}
	k.mu.Unlock()
	<-running
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

const (
	// maxKeys bounds the keys of one issuer.
	maxKeys = 64
	// minRSABits and maxRSABits bound RSA keys: a shorter key is not safe, and a longer one
	// is slow.
	minRSABits, maxRSABits = 2048, 8192
)

// key is a public key of an issuer.
type key struct {
	jose.JSONWebKey

	print string // the thumbprint, by which a key is recognised in the next set
	// gone is set once the issuer does not publish the key any more.
	gone atomic.Bool
}

// keySet is the keys of an issuer at one time. Immutable.
type keySet struct {
	keys    []*key
	fetched time.Time
}

var errNoKeys = errors.New("the issuer publishes no key that can verify a signature")

// parseKeys reads a JWK set. It skips keys that it cannot use. Keys of the set before stay the
// same, so that what they have verified stays verified.
func parseKeys(body []byte, before *keySet, now time.Time) (*keySet, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, errors.New("the issuer's keys are no JWK set")
	}
	set := &keySet{fetched: now}
	for _, raw := range doc.Keys {
		k, ok := parseKey(raw)
		if !ok || len(set.keys) == maxKeys {
			continue
		}
		if old := before.same(k); old != nil {
			k = old
		}
		set.keys = append(set.keys, k)
	}
	if len(set.keys) == 0 {
		return nil, errNoKeys
	}
	return set, nil
}

// parseKey reads a public key for signatures.
func parseKey(raw []byte) (*key, bool) {
	k := &key{}
	if k.UnmarshalJSON(raw) != nil || !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return nil, false
	}
	if !isSafe(k.Key) {
		return nil, false
	}
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, false
	}
	k.print = encode(sum)
	return k, true
}

// isSafe bounds the size of a key, from both sides.
func isSafe(public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// same is the key of the set with the same name and content.
func (s *keySet) same(k *key) *key {
	if s == nil {
		return nil
	}
	for _, old := range s.keys {
		if old.print == k.print && old.KeyID == k.KeyID && old.Algorithm == k.Algorithm {
			return old
		}
	}
	return nil
}

// replacedBy marks the keys that are not in the next set.
func (s *keySet) replacedBy(next *keySet) {
	if s == nil {
		return
	}
	for _, k := range s.keys {
		if !slices.Contains(next.keys, k) {
			k.gone.Store(true)
		}
	}
}

// find returns the keys that may have signed a token: the one with its kid, or all that fit
// its algorithm if it names none.
func (s *keySet) find(kid, alg string) []*key {
	if s == nil {
		return nil
	}
	var found []*key
	for _, k := range s.keys {
		if (kid == "" || k.KeyID == kid) && fits(k.Key, alg) && (k.Algorithm == "" || k.Algorithm == alg) {
			found = append(found, k)
		}
	}
	return found
}

// fits reports whether a key is for an algorithm.
func fits(public any, alg string) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[alg] == k.Curve.Params().BitSize
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// verified is the outcome of verifying a token. Immutable, but for its lease and key.
type verified struct {
	who     *Identity
	lease   *Lease
	above   *Identity // the entry of the callers file that claims it; nil for none
	subject Subject
	facts   Facts
	bound   binding
	key     *key // that signed it; nil for an introspected token
	// until is when the token has to be verified again, or has expired.
	until time.Time
}

// isGood holds while nothing about the token has to be verified again.
func (e *verified) isGood(now time.Time) bool {
	return now.Before(e.until) && (e.key == nil || !e.key.gone.Load())
}

// fetcher sends requests to one issuer, bounded in size and time. It follows no redirect,
// because one could lead to any host.
type fetcher struct {
	client  *http.Client
	max     int
	timeout time.Duration
}

// maxConnections bounds connections to an issuer.
const maxConnections = 32

func newFetcher(cas *x509.CertPool, timeout time.Duration, most int) *fetcher {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cas},
		TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout, IdleConnTimeout: 10 * time.Second,
		MaxConnsPerHost: maxConnections, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &fetcher{client: &http.Client{Transport: transport, CheckRedirect: stay}, max: most, timeout: timeout}
}

// get returns the body of a response with status 200.
func (f *fetcher) get(ctx context.Context, from string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	return f.do(r)
}

// post sends a form with the credentials of a client (RFC 6749, section 2.3.1).
func (f *fetcher) post(ctx context.Context, to string, form url.Values, id, secret string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return f.do(r)
}

func (f *fetcher) do(r *http.Request) ([]byte, error) {
	ctx, stop := context.WithTimeout(r.Context(), f.timeout)
	defer stop()
	r.Header.Set("Accept", "application/json")
	answer, err := f.client.Do(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // nothing is lost: the body was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", bare(r.URL), answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, int64(f.max)+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > f.max:
		return nil, fmt.Errorf("the response of %s is larger than %d bytes", bare(r.URL), f.max)
	}
	return body, nil
}

// bare is a URL without its query.
func bare(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

func (f *fetcher) close() { f.client.CloseIdleConnections() }

// errInsecure refuses what could be read or changed on its way.
var errInsecure = errors.New("must be https; http is for loopback only")

// checkURL checks a URL of an issuer or of the resource.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Host == "" || u.User != nil || u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("must be a URL with a host, without user and fragment")
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, errInsecure
}

// keyFile is the path of a key set that a file has; ok is false for a URL to fetch.
func keyFile(from string) (path string, ok bool) {
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "file" {
		return "", false
	}
	return u.Path, true
}

// checkKeys checks where an issuer's keys are.
func checkKeys(from string) error {
	if path, ok := keyFile(from); ok {
		if u, _ := url.Parse(from); u.Host != "" || !filepath.IsAbs(path) || u.RawQuery != "" {
			return errors.New("must be file:///PATH, with the absolute path of a JWK set")
		}
		return nil
	}
	_, err := checkURL(from)
	return err
}

// issuer is one authorization server.
type issuer struct {
	opts  Issuer
	fetch *fetcher
	keys  *issuerKeys
	meta  atomic.Pointer[metadata] // nil until it was found
	asked *introspector            // nil without introspection
	log   *zap.Logger
}

// metadata is the part of an issuer's metadata that is used.
type metadata struct {
	Issuer     string `json:"issuer"`
	JWKS       string `json:"jwks_uri"`
	Introspect string `json:"introspection_endpoint"`
}

func newIssuer(life context.Context, o Issuer, all *VerifierOptions, counts *counts) (*issuer, error) {
	if _, err := checkURL(o.URL); err != nil {
		return nil, fmt.Errorf("issuer %q: %w", o.URL, err)
	}
	if err := checkKeys(orElse(o.JWKS, o.URL)); err != nil {
		return nil, fmt.Errorf("keys of issuer %q: %w", o.URL, err)
	}
	i := &issuer{
		opts: o, fetch: newFetcher(o.CAs, all.FetchTimeout, all.MaxFetchBytes),
		log: all.Log.With(zap.String("issuer", o.URL)),
	}
	if o.JWKS != "" {
		i.meta.Store(&metadata{Issuer: o.URL, JWKS: o.JWKS})
	}
	i.keys = &issuerKeys{life: life, fetch: i.fetchKeys, interval: all.FetchInterval, counts: counts, unknown: NewCache[string, struct{}](maxUnknownKids)}
	if o.Introspection != nil {
		if _, err := checkURL(orElse(o.Introspection.URL, o.URL)); err != nil {
			return nil, fmt.Errorf("introspection of issuer %q: %w", o.URL, err)
		}
		i.asked = newIntrospector(i, *o.Introspection, counts)
	}
	return i, nil
}

// route is the key by which tokens find their issuer: a trailing slash makes no difference
// there. What the token says is compared exactly once the metadata is known.
func route(issuer string) string { return strings.TrimSuffix(issuer, "/") }

// name is the issuer exactly as its metadata states it, empty until that was found.
func (i *issuer) name() string {
	if m := i.meta.Load(); m != nil {
		return m.Issuer
	}
	return ""
}

// fetchKeys finds the metadata, and with it the keys. Known metadata stays in use where it
// cannot be found again.
func (i *issuer) fetchKeys(ctx context.Context, before *keySet) (*keySet, error) {
	if err := i.discover(ctx); err != nil && i.meta.Load() == nil {
		return nil, err
	}
	var body []byte
	var err error
	if path, ok := keyFile(i.opts.JWKS); ok { // never one that the metadata names
		body, err = keys.ReadFile(path, i.fetch.max)
	} else {
		body, err = i.fetch.get(ctx, i.meta.Load().JWKS)
	}
	if err != nil {
		return nil, err
	}
	return parseKeys(body, before, time.Now())
}

// discover finds the metadata by RFC 8414, then by OpenID Connect Discovery. It does nothing
// where the keys have a configured URL and nothing else is needed.
func (i *issuer) discover(ctx context.Context) error {
	if i.opts.JWKS != "" && (i.opts.Introspection == nil || i.opts.Introspection.URL != "") {
		return nil
	}
	var all error
	for _, place := range wellKnown(i.opts.URL) {
		body, err := i.fetch.get(ctx, place)
		if err == nil {
			err = i.adopt(body)
		}
		if err == nil {
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
}

// adopt takes metadata into use.
func (i *issuer) adopt(body []byte) error {
	var m metadata
	if err := json.Unmarshal(body, &m); err != nil {
		return errors.New("the issuer's metadata is no JSON object")
	}
	if route(m.Issuer) != route(i.opts.URL) {
		return fmt.Errorf("the metadata is of another issuer: %q", clip(m.Issuer))
	}
	for _, text := range []string{m.JWKS, m.Introspect} {
		if u, err := checkURL(text); text != "" && (err != nil || u.Scheme == "http" && !strings.HasPrefix(i.opts.URL, "http:")) {
			return fmt.Errorf("the metadata has a URL that is not usable: %q", clip(text))
		}
	}
	if i.opts.JWKS != "" {
		m.JWKS, m.Issuer = i.opts.JWKS, i.opts.URL
	}
	if m.JWKS == "" {
		return errors.New("the metadata has no jwks_uri")
	}
	i.meta.Store(&m)
	return nil
}

// wellKnown returns the places of an issuer's metadata, in the order of MCP.
func wellKnown(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	return places
}

// run keeps the keys fresh until ctx ends.
func (i *issuer) run(ctx context.Context, every, retry time.Duration) {
	defer i.fetch.close()
	failing := false
	for {
		wait := every
		if err := i.keys.refresh(); err != nil {
			wait = min(every, retry)
			i.log.Warn("fetching the issuer's keys failed; keeping the last good ones and retrying", logkey.Error(err))
			failing = true
		} else if failing {
			i.log.Info("the issuer's keys were fetched again")
			failing = false
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// clip bounds what an issuer sent, for an error.
func clip(s string) string { return s[:min(len(s), 200)] }

// isLoopback holds for hosts that cannot be another machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() && net.ParseIP(host) != nil
}
