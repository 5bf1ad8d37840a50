// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// source is an issuer's keys, without a network.
type source struct {
	made    map[string]jose.JSONWebKey
	kids    atomic.Pointer[[]string]
	away    atomic.Bool
	fetches atomic.Int32
}

// newKeys returns keys whose source takes a second for each fetch.
func newKeys(t *testing.T, kids ...string) (*issuerKeys, *source) {
	s := &source{made: map[string]jose.JSONWebKey{}}
	for _, kid := range []string{"a", "b"} {
		s.made[kid] = oauthtest.NewKey(t, kid, "ES256").JWK()
	}
	s.kids.Store(&kids)
	k := &issuerKeys{life: t.Context(), interval: 10 * time.Second, counts: &counts{}, unknown: NewCache[string, struct{}](maxUnknownKids)}
	k.fetch = func(_ context.Context, before *keySet) (*keySet, error) {
		s.fetches.Add(1)
		time.Sleep(time.Second)
		if s.away.Load() {
			return nil, errors.New("away")
		}
		text := ""
		for _, kid := range *s.kids.Load() {
			one, _ := s.made[kid].MarshalJSON()
			text += "," + string(one)
		}
		return parseKeys([]byte(`{"keys":[{"kty":"unknown"}`+text+`]}`), before, time.Now())
	}
	return k, s
}

// kindOfError is what a caller would get.
func kindOfError(err error) string {
	var f *fault
	var down *unavailableError
	switch {
	case err == nil:
		return "found"
	case errors.As(err, &f):
		return "unknown"
	case errors.As(err, &down):
		return fmt.Sprint("unavailable ", down.Retry)
	}
	return err.Error()
}

func (k *issuerKeys) lookFor(t *testing.T, kid, want string) {
	t.Helper()
	if _, err := k.find(t.Context(), kid, "ES256"); kindOfError(err) != want {
		t.Errorf("%s: %s, want %s", kid, kindOfError(err), want)
	}
}

// TestFetchesAreFew: many tokens with new keys cause one fetch, and then none for the interval.
func TestFetchesAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeys(t, "a")
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { k.lookFor(t, "a", "found") })
			all.Go(func() { k.lookFor(t, fmt.Sprint("random", i), "unknown") })
		}
		all.Wait()
		for i := range 100_000 {
			k.lookFor(t, fmt.Sprint(i), "unknown")
		}
		if n := s.fetches.Load(); n != 1 {
			t.Errorf("%d fetches", n)
		}
		if n := k.unknown.Len(); n > maxUnknownKids {
			t.Errorf("%d kids are remembered", n)
		}
		// An attacker's kids for a minute: one fetch each interval, and one second for the fetch.
		begin := time.Now()
		for i := 0; time.Since(begin) < time.Minute; i++ {
			_, _ = k.find(t.Context(), fmt.Sprint("later", i), "ES256")
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.fetches.Load(); n < 6 || n > 7 {
			t.Errorf("%d fetches in a minute", n)
		}
	})
}

// TestUnknownIsRemembered: a kid that is unknown causes no fetch for a minute, and then one.
func TestUnknownIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeys(t, "a")
		k.lookFor(t, "b", "unknown")
		time.Sleep(30 * time.Second)
		k.lookFor(t, "b", "unknown")
		if n := s.fetches.Load(); n != 1 {
			t.Errorf("%d fetches", n)
		}
		s.kids.Store(&[]string{"a", "b"})
		time.Sleep(unknownFor)
		k.lookFor(t, "b", "found")
	})
}

// TestWhileTheIssuerIsAway: the last good keys serve, and a new one is unavailable, not unknown.
func TestWhileTheIssuerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeys(t, "a")
		s.away.Store(true)
		k.lookFor(t, "a", "unavailable 9s")
		time.Sleep(4 * time.Second)
		k.lookFor(t, "a", "unavailable 5s")
		s.away.Store(false)
		time.Sleep(6 * time.Second)
		k.lookFor(t, "a", "found")
		s.away.Store(true)
		time.Sleep(time.Hour)
		k.lookFor(t, "a", "found")
		k.lookFor(t, "b", "unavailable 9s")
		if k.refresh() == nil {
			t.Error("a refresh without an issuer")
		}
		k.lookFor(t, "a", "found")
		// Back again, within the interval: the background fetch has the key.
		s.away.Store(false)
		s.kids.Store(&[]string{"b"})
		old := k.set.Load().find("a", "ES256")[0]
		if err := k.refresh(); err != nil {
			t.Error(err)
		}
		k.lookFor(t, "b", "found")
		if !old.gone.Load() {
			t.Error("a key that is not published any more is still good")
		}
	})
}

// TestAFetchThatHadBegun: a token whose key was published while a slow fetch ran is not refused.
func TestAFetchThatHadBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeys(t, "a")
		k.interval = 100 * time.Millisecond // a fetch takes a second
		fetch := k.fetch
		k.fetch = func(ctx context.Context, before *keySet) (*keySet, error) {
			if s.fetches.Load() == 1 { // the second one
				s.kids.Store(&[]string{"a", "b"})
			}
			return fetch(ctx, before)
		}
		go func() { _ = k.refresh() }()
		time.Sleep(500 * time.Millisecond)
		k.lookFor(t, "b", "found")
		if n := s.fetches.Load(); n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}

// TestNothingUsable: a set without a usable key does not replace a good one.
func TestNothingUsable(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `[]`, `{}`, `{"keys":[]}`, `{"keys":[{"kty":"oct","k":"AAAA"}]}`, `{"keys":{}}`} {
		if _, err := parseKeys([]byte(body), nil, time.Now()); err == nil {
			t.Errorf("%s is a set", body)
		}
	}
}

// TestReplays: a proof is accepted once, for as long as it could be used, within the bound.
func TestReplays(t *testing.T) {
	t.Parallel()
	const age = 300 * time.Second
	r, now := newReplays(1000, age), time.Unix(1_800_000_000, 0)
	add := func(jti string, at, when time.Time) bool {
		fresh, err := r.add("key", jti, at, when)
		return fresh && err == nil
	}
	ahead := now.Add(age) // the most that a clock may be ahead
	if !add("a", ahead, now) || add("a", ahead, now) || add("a", ahead, now.Add(2*age)) {
		t.Error("a proof is accepted twice")
	}
	if fresh, _ := r.add("other", "a", ahead, now); !fresh {
		t.Error("another key's identifier counts")
	}
	full := 0
	for i := range 2000 {
		if !add(fmt.Sprint(i), now, now) {
			full++
		}
	}
	if _, err := r.add("key", "more", now, now); full != 1002 || !errors.As(err, new(*unavailableError)) {
		t.Errorf("%d refused, %v", full, err)
	}
	if !add("later", now.Add(3*age), now.Add(3*age)) || r.held != 1 {
		t.Errorf("%d are held", r.held)
	}
}

// TestNonces: the current one and the one before, and none of another process.
func TestNonces(t *testing.T) {
	t.Parallel()
	n, other, now := newNonces(time.Minute), newNonces(time.Minute), time.Unix(1_800_000_000, 0)
	nonce := n.current(now)
	if !n.accepts(nonce, now) || !n.accepts(nonce, now.Add(time.Minute)) || n.accepts(nonce, now.Add(3*time.Minute)) ||
		other.accepts(nonce, now) || n.accepts("", now) {
		t.Error("nonces")
	}
}

// TestCacheIsBounded: also when all tokens are good.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c, now := newCache(64), time.Now()
	for i := range 10_000 {
		d := Digest{byte(i), byte(i >> 8)}
		c.put(&d, &verified{until: now.Add(time.Hour)}, now)
	}
	if n := c.len(); n > 64 || n < 32 {
		t.Errorf("%d tokens", n)
	}
}

// TestCache: entries end at their time, and the next to end makes room.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, now := NewCache[string, int](2), time.Now()
		c.Put("past", 0, now, now)
		c.Put("a", 1, now.Add(time.Second), now)
		c.Put("b", 2, now.Add(time.Minute), now)
		c.Put("b", 3, now.Add(time.Minute), now)
		if v, ok := c.Get("a", now); !ok || v != 1 || c.Len() != 2 {
			t.Errorf("%v %v, %d entries", v, ok, c.Len())
		}
		c.Put("c", 4, now.Add(time.Hour), now) // a goes, it is the next to end
		if _, ok := c.Get("a", now); ok || c.Len() != 2 {
			t.Error("the wrong entry made room")
		}
		time.Sleep(time.Minute)
		if _, ok := c.Get("b", time.Now()); ok || c.held("b") != 3 {
			t.Error("b outlives its time")
		}
		c.Put("d", 5, time.Now().Add(time.Hour), time.Now()) // b goes, it has ended
		if _, ok := c.Get("c", time.Now()); !ok || c.Len() != 2 {
			t.Error("a live entry made room")
		}
	})
}
