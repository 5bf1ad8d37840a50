// SPDX-License-Identifier: Apache-2.0

package oauthtest

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"go.uber.org/zap"
)

// The credentials of the client that may introspect.
const (
	ClientID     = "sidecar"
	ClientSecret = "a secret/of the sidecar"
)

// Issuer is an authorization server.
type Issuer struct {
	// URL is the issuer, with a path.
	URL string
	// Key signs tokens.
	Key *Key

	away atomic.Bool

	mu        sync.Mutex
	published []*Key
	opaque    map[string]map[string]any
	requests  map[string]int
	slash     bool
	// provider is the identity provider whose grants are taken, and redeemed are those that were. denied are the resources
	// for which there are none.
	provider *Issuer
	redeemed map[string]bool
	denied   []string
}

// Start starts an issuer with one key on loopback, until the end of the test.
func Start(tb testing.TB) *Issuer {
	tb.Helper()
	i, handler := newIssuer(tb)
	server := httptest.NewServer(handler)
	i.URL = server.URL + "/realm"
	tb.Cleanup(server.Close)
	return i
}

// InMemory is Start without a network, as for a test in a bubble: dial reaches the issuer.
func InMemory(tb testing.TB) (i *Issuer, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	tb.Helper()
	i, handler := newIssuer(tb)
	server := backend.NewInProcess(handler, zap.NewNop())
	i.URL = "http://127.0.0.1:1/realm"
	tb.Cleanup(func() { _ = server.Close() })
	return i, server.Dial
}

func newIssuer(tb testing.TB) (*Issuer, http.Handler) {
	tb.Helper()
	i := &Issuer{Key: NewKey(tb, "first", "ES256"), opaque: map[string]map[string]any{}, requests: map[string]int{}, redeemed: map[string]bool{}}
	i.published = []*Key{i.Key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/realm", i.metadata)
	mux.HandleFunc("GET /realm/jwks", i.jwks)
	mux.HandleFunc("POST /realm/introspect", i.introspect)
	mux.HandleFunc("POST /realm/token", i.token)
	mux.Handle("GET /realm/moved", http.RedirectHandler("/realm/jwks", http.StatusFound))
	return i, i.count(mux)
}

// count counts requests by path, and answers none while the issuer is away.
func (i *Issuer) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.requests[r.URL.Path]++
		i.mu.Unlock()
		if i.away.Load() {
			panic(http.ErrAbortHandler) //nolint:forbidigo // the connection ends without an answer
		}
		next.ServeHTTP(w, r)
	})
}

// SetAway makes the issuer answer nothing, or answer again.
func (i *Issuer) SetAway(away bool) { i.away.Store(away) }

// SetSlash adds a slash to the issuer of the metadata, as Auth0 does.
func (i *Issuer) SetSlash() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.slash = true
}

// Publish replaces the published keys.
func (i *Issuer) Publish(keys ...*Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published = keys
}

// KeyFetches and Introspections are the numbers of requests.
func (i *Issuer) KeyFetches() int { return i.asked("/realm/jwks") }

// Introspections is the number of introspection requests.
func (i *Issuer) Introspections() int { return i.asked("/realm/introspect") }

func (i *Issuer) asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests[path]
}

// JWKS is the URL of the keys, Introspect that of the introspection endpoint.
func (i *Issuer) JWKS() string { return i.URL + "/jwks" }

// Introspect is the URL of the introspection endpoint.
func (i *Issuer) Introspect() string { return i.URL + "/introspect" }

func (i *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	name := i.URL
	if i.slash {
		name += "/"
	}
	i.mu.Unlock()
	answer(w, map[string]any{
		"issuer": name, "jwks_uri": i.JWKS(), "introspection_endpoint": i.Introspect(), "token_endpoint": i.TokenEndpoint(),
		"grant_types_supported": []string{GrantTokenExchange, GrantJWTBearer}, "authorization_grant_profiles_supported": []string{ProfileIDJAG},
	})
}

func (i *Issuer) jwks(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range i.published {
		set.Keys = append(set.Keys, k.JWK())
	}
	answer(w, set)
}

// Grant makes an opaque token known, with the claims of its introspection; nil claims revoke it.
func (i *Issuer) Grant(token string, claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.opaque[token] = claims
}

func (i *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	if id, secret, ok := r.BasicAuth(); !ok || id != ClientID || secret != "a+secret%2Fof+the+sidecar" { //nolint:gosec // of a test
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	i.mu.Lock()
	claims := maps.Clone(i.opaque[r.PostFormValue("token")])
	i.mu.Unlock()
	if claims == nil {
		answer(w, map[string]any{"active": false})
		return
	}
	claims["active"] = true
	answer(w, claims)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // of values that a test has made
}

// Claims are those of a good token for a resource.
func (i *Issuer) Claims(resource string) map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"iss": i.URL, "sub": "ann", "aud": resource, "exp": now + 300, "iat": now, "client_id": "app", "scope": "tools:read tools:write",
	}
}

// Header is that of a good token.
func (i *Issuer) Header() map[string]any {
	return map[string]any{"alg": i.Key.Algorithm, "kid": i.Key.ID, "typ": "at+jwt"}
}

// Token is a good token for a resource, with other claims where change makes them.
func (i *Issuer) Token(resource string, change func(claims map[string]any)) string {
	claims := i.Claims(resource)
	if change != nil {
		change(claims)
	}
	return i.Key.Sign(i.Header(), claims)
}

// Secretly returns the secret of the client that may introspect.
func Secretly() (string, error) { return ClientSecret, nil }
