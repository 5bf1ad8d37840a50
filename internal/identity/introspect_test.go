// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"encoding/hex"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// introspecting is a verifier of an issuer with opaque tokens.
func introspecting(t testing.TB, i *oauthtest.Issuer, ttl time.Duration, url string) *identity.Verifier {
	return open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL, Introspection: &identity.Introspection{
		ClientID: oauthtest.ClientID, Secret: oauthtest.Secretly, TTL: ttl, URL: url,
	}}}})
}

// TestIntrospection: which responses are good ones.
func TestIntrospection(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	v := introspecting(t, i, 0, "")
	with := func(name string, value any) map[string]any {
		claims := i.Claims(resource)
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return claims
	}
	good := i.URL + "#ann"
	for name, tt := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"good":            {i.Claims(resource), good},
		"no iss":          {with("iss", nil), good},
		"no exp":          {with("exp", nil), good},
		"bearer":          {with("token_type", "Bearer"), good},
		"refresh token":   {with("token_type", "refresh_token"), "type"},
		"another issuer":  {with("iss", "https://example.com"), "issuer"},
		"unknown":         {nil, "inactive"},
		"no aud":          {with("aud", nil), "audience"},
		"another aud":     {with("aud", "x"), "audience"},
		"no sub":          {with("sub", nil), "claims"},
		"expired":         {with("exp", time.Now().Add(-time.Second).Unix()), "expired"},
		"bound to a key":  {with("cnf", map[string]any{"jkt": "x"}), "binding"},
		"malformed scope": {with("scope", 7), "claims"},
	} {
		token := "opaque-" + hex.EncodeToString([]byte(name))
		i.Grant(token, tt.claims)
		who, err := show(v, token)
		if got := outcome(who, err); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestIntrospectionsAreFew: one for many requests, also of a token that is not active.
func TestIntrospectionsAreFew(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	v := introspecting(t, i, time.Minute, i.Introspect())
	i.Grant("opaque-0123456789", i.Claims(resource))
	var all sync.WaitGroup
	for range 200 {
		for _, token := range []string{"opaque-0123456789", "unknown-0123456789"} {
			all.Go(func() { _, _ = show(v, token) })
		}
	}
	all.Wait()
	if n := i.Introspections(); n != 2 {
		t.Errorf("%d introspections", n)
	}
}

// TestRevocation: a revoked token is refused within the time of a response, and its streams end;
// a token that is not revoked keeps its identity and its streams.
func TestRevocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		i, dial := oauthtest.InMemory(t)
		v, err := identity.NewVerifier(identity.VerifierOptions{Resource: resource, Issuers: []identity.Issuer{{URL: i.URL, Introspection: &identity.Introspection{
			ClientID: oauthtest.ClientID, Secret: oauthtest.Secretly, TTL: ttl,
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		v.ReachBy(dial)
		run(t, v)
		var first [2]*identity.Identity
		tokens := [2]string{"opaque-a-0123456789", "opaque-b-0123456789"}
		for n, token := range tokens {
			i.Grant(token, i.Claims(resource))
			if first[n], err = show(v, token); err != nil {
				t.Fatal(err)
			}
		}
		ended := [2]<-chan struct{}{first[0].Revoked(), first[1].Revoked()} // which has them renewed
		goesOn := func(n int) bool {
			select {
			case <-ended[n]:
				return false
			default:
				return true
			}
		}
		i.Grant(tokens[0], nil)
		time.Sleep(ttl + time.Nanosecond)
		synctest.Wait()
		if goesOn(0) {
			t.Error("the stream of a revoked token goes on")
		}
		who, err := show(v, tokens[0])
		if got := outcome(who, err); got != "inactive" {
			t.Error(got)
		}
		time.Sleep(10 * ttl) // the other one is introspected again meanwhile
		if !goesOn(1) {
			t.Error("the stream of a good token has ended")
		}
		if again, err := show(v, tokens[1]); again != first[1] {
			t.Errorf("another identity: %s", outcome(again, err))
		}
		i.SetAway(true) // what cannot be judged ends in time
		time.Sleep(ttl + time.Nanosecond)
		synctest.Wait()
		if goesOn(1) {
			t.Error("the stream of a token that cannot be judged goes on")
		}
		who, err = show(v, tokens[1])
		if got := outcome(who, err); got != "unavailable" {
			t.Error(got)
		}
	})
}
