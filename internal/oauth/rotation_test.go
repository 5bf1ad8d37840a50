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

// rotation is a load on what verifies tokens while its issuer's keys rotate.
type rotation struct {
	issuer *oauthtest.Issuer
	// present shows a token: "" if it passes, "unavailable" if it cannot be judged now, and
	// otherwise why it is refused.
	present func(token string) string
	// workers show good tokens at a time. pause is the time between two tokens of the attacker.
	workers int
	pause   time.Duration

	current                     atomic.Pointer[oauthtest.Key]
	calls, unavailable, attacks atomic.Int64
}

// rotationTime is how long keys rotate: 4 s, or OUTRIGGER_ROTATION (`make rotation-test`: two
// minutes).
func rotationTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("OUTRIGGER_ROTATION")
	if text == "" {
		return 4 * time.Second
	}
	total, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// run rotates keys and shows tokens until the time is over.
func (r *rotation) run(t *testing.T, total, refresh time.Duration) {
	t.Helper()
	r.current.Store(r.issuer.Key)
	within(t, "the first keys are there", func() bool { return r.present(r.issuer.Token(resource, nil)) == "" })
	end := time.Now().Add(total)
	var all sync.WaitGroup
	all.Go(func() { r.rotate(t, end, refresh) })
	all.Go(func() { r.come(end, refresh*3/4) })
	all.Go(func() { r.call(t, end) })
	all.Go(func() { r.attack(t, end) })
	all.Wait()
	// A busy machine does less, and still shows whether a key that is known is refused.
	if r.calls.Load() == 0 || r.attacks.Load() == 0 {
		t.Errorf("too little happened: %d calls, %d attacks", r.calls.Load(), r.attacks.Load())
	}
}

// mostFetches bounds the fetches: one each refresh interval, and one each fetch interval because
// of tokens.
func mostFetches(total, refresh, fetch time.Duration) int { return int(total/fetch+total/refresh) + 3 }

// TestRotation: 500 calls a second while keys rotate and the issuer is away for half of the time,
// each key published one refresh interval before its first use, and an attacker sends random
// kids. No good token is refused, and few fetches are made.
func TestRotation(t *testing.T) {
	t.Parallel()
	total := rotationTime(t)
	refresh, fetch := total/20, total/60
	r := &rotation{issuer: oauthtest.Start(t), workers: 1, pause: time.Millisecond}
	v := open(t, oauth.Options{Issuers: []oauth.Issuer{{URL: r.issuer.URL}}, RefreshInterval: refresh, FetchInterval: fetch})
	r.present = func(token string) string {
		who, err := show(v, token)
		if err == nil {
			return ""
		}
		return outcome(who, err)
	}
	r.run(t, total, refresh)
	s, most := v.Stats(), mostFetches(total, refresh, fetch)
	if n := int(s.KeyFetches + s.KeyFetchesFailed); n > most || r.issuer.KeyFetches() > most || s.KeyFetchesFailed == 0 {
		t.Errorf("%d fetches, %d of them failed, %d requests, at most %d expected", n, s.KeyFetchesFailed, r.issuer.KeyFetches(), most)
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

// call shows tokens of the current key, most of them more than once.
func (r *rotation) call(t *testing.T, end time.Time) {
	tokens := make(chan string)
	var all sync.WaitGroup
	for range r.workers {
		all.Go(func() {
			for token := range tokens {
				r.calls.Add(1)
				switch said := r.present(token); said {
				case "":
				case "unavailable":
					r.unavailable.Add(1)
				default:
					t.Errorf("a good token is refused: %s", said)
				}
			}
		})
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	token := ""
	for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
		<-tick.C
		if n%5 == 0 {
			k := r.current.Load()
			token = k.Sign(map[string]any{"alg": "ES256", "kid": k.ID}, r.issuer.Claims(resource))
		}
		tokens <- token
	}
	close(tokens)
	all.Wait()
}

// attack shows tokens with random kids.
func (r *rotation) attack(t *testing.T, end time.Time) {
	k := oauthtest.NewKey(t, "", "ES256")
	for time.Now().Before(end) {
		if r.present(k.Sign(map[string]any{"alg": "ES256", "kid": rand.Text()}, r.issuer.Claims(resource))) == "" {
			t.Error("a token of the attacker has passed")
			return
		}
		r.attacks.Add(1)
		time.Sleep(r.pause)
	}
}
