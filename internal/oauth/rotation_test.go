// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/oauth"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// rotation is a load on a verifier while its issuer's keys rotate.
type rotation struct {
	issuer  *oauthtest.Issuer
	v       *oauth.Verifier
	current atomic.Pointer[oauthtest.Key]

	calls, unavailable, attacks atomic.Int64
}

// TestRotation: 500 calls a second while keys rotate and the issuer is away for half of the time,
// each key published one refresh interval before its first use, and an attacker sends random
// kids. No good token is refused, and few fetches are made. It runs for 4 s, or for
// OUTRIGGER_ROTATION (`make rotation-test`: two minutes).
func TestRotation(t *testing.T) {
	t.Parallel()
	total := 4 * time.Second
	if text := os.Getenv("OUTRIGGER_ROTATION"); text != "" {
		var err error
		if total, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	refresh, fetch := total/20, total/60
	r := &rotation{issuer: oauthtest.Start(t)}
	r.v = open(t, oauth.Options{Issuers: []oauth.Issuer{{URL: r.issuer.URL}}, RefreshInterval: refresh, FetchInterval: fetch})
	r.current.Store(r.issuer.Key)
	within(t, "the first keys are there", func() bool {
		_, err := show(r.v, r.issuer.Token(resource, nil))
		return err == nil
	})
	end := time.Now().Add(total)
	var all sync.WaitGroup
	all.Go(func() { r.rotate(t, end, refresh) })
	all.Go(func() { r.come(end, refresh*3/4) })
	all.Go(func() { r.call(t, end) })
	all.Go(func() { r.attack(t, end) })
	all.Wait()
	s := r.v.Stats()
	most := int(total/fetch+total/refresh) + 3
	if n := int(s.KeyFetches + s.KeyFetchesFailed); n > most || r.issuer.KeyFetches() > most {
		t.Errorf("%d fetches, %d requests, at most %d expected", n, r.issuer.KeyFetches(), most)
	}
	if s.KeyFetchesFailed == 0 || r.attacks.Load() == 0 || r.calls.Load() < int64(total.Seconds()*100) {
		t.Errorf("too little happened: %+v, %d calls, %d attacks", s, r.calls.Load(), r.attacks.Load())
	}
	t.Logf("%d calls, %d unavailable, %d attacks, %+v", r.calls.Load(), r.unavailable.Load(), r.attacks.Load(), s)
}

// rotate publishes a key, waits for one interval, and signs with it from then on. The key before
// stays published for one more turn.
func (r *rotation) rotate(t *testing.T, end time.Time, refresh time.Duration) {
	var before *oauthtest.Key
	for n := 0; time.Now().Before(end); n++ {
		current, next := r.current.Load(), oauthtest.NewKey(t, fmt.Sprint("key", n), "ES256")
		keys := []*oauthtest.Key{current, next}
		if before != nil {
			keys = append(keys, before)
		}
		r.issuer.Publish(keys...)
		time.Sleep(refresh)
		before = current
		r.current.Store(next)
		time.Sleep(refresh / 2)
	}
}

// come and go: the issuer is away for half of the time.
func (r *rotation) come(end time.Time, every time.Duration) {
	for away := false; time.Now().Before(end); away = !away {
		r.issuer.SetAway(away)
		time.Sleep(every)
	}
	r.issuer.SetAway(false)
}

// call brings tokens of the current key, most of them more than once.
func (r *rotation) call(t *testing.T, end time.Time) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	token := ""
	for n := 0; time.Now().Before(end); n++ {
		<-tick.C
		if n%5 == 0 {
			k := r.current.Load()
			token = k.Sign(map[string]any{"alg": "ES256", "kid": k.ID}, r.issuer.Claims(resource))
		}
		r.calls.Add(1)
		who, err := show(r.v, token)
		switch got := outcome(who, err); {
		case err == nil:
		case got == "unavailable":
			r.unavailable.Add(1)
		default:
			t.Errorf("a good token is refused: %s", got)
			return
		}
	}
}

// attack brings tokens with random kids.
func (r *rotation) attack(t *testing.T, end time.Time) {
	k := oauthtest.NewKey(t, "", "ES256")
	for time.Now().Before(end) {
		token := k.Sign(map[string]any{"alg": "ES256", "kid": rand.Text()}, r.issuer.Claims(resource))
		if who, err := show(r.v, token); err == nil {
			t.Errorf("%s has passed", who.Name())
			return
		}
		r.attacks.Add(1)
		time.Sleep(time.Millisecond)
	}
}
