// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
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

	current atomic.Pointer[oauthtest.Key]
	// turn counts the keys that were current.
	turn                        atomic.Int64
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

// leastRate is the calls a second that a run must have made, on average, when it ends.
const leastRate = 100

// run rotates keys and shows tokens for a time, and longer on a busy machine: until there
// were enough calls, an attack, and a fetch that failed. It returns how long that was.
func (r *rotation) run(t *testing.T, total, refresh time.Duration, failedFetches func() int) time.Duration {
	t.Helper()
	r.current.Store(r.issuer.Key)
	testkit.Until(t, "the first keys are there", func() bool { return r.present(r.issuer.Token(resource, nil)) == "" })
	begun, least := time.Now(), int64(total.Seconds()*leastRate)
	var isOver atomic.Bool
	goes := func() bool { return !isOver.Load() }
	var all sync.WaitGroup
	all.Go(func() { r.rotate(t, goes, refresh) })
	all.Go(func() { r.come(goes, refresh*3/4) })
	all.Go(func() { r.call(t, goes) })
	all.Go(func() { r.attack(t, goes) })
	time.Sleep(total)
	for time.Since(begun) < total+testkit.Limit() && (r.calls.Load() < least || r.attacks.Load() == 0 || failedFetches() == 0) {
		time.Sleep(refresh)
	}
	isOver.Store(true)
	all.Wait()
	if r.attacks.Load() == 0 || r.calls.Load() < least || failedFetches() == 0 {
		t.Errorf("too little happened: %d calls, %d attacks, %d failed fetches", r.calls.Load(), r.attacks.Load(), failedFetches())
	}
	return time.Since(begun)
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
	v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: r.issuer.URL}}, RefreshInterval: refresh, FetchInterval: fetch})
	r.present = func(token string) string {
		who, err := show(v, token)
		if err == nil {
			return ""
		}
		return outcome(who, err)
	}
	took := r.run(t, total, refresh, func() int { return int(v.Stats().KeyFetchesFailed) })
	s, most := v.Stats(), mostFetches(took, refresh, fetch)
	if n := int(s.KeyFetches + s.KeyFetchesFailed); n > most || r.issuer.KeyFetches() > most {
		t.Errorf("%d fetches, %d of them failed, %d requests, at most %d expected", n, s.KeyFetchesFailed, r.issuer.KeyFetches(), most)
	}
	t.Logf("%d calls, %d unavailable, %d attacks, %+v", r.calls.Load(), r.unavailable.Load(), r.attacks.Load(), s)
}

// rotate publishes a key, waits for one interval, and signs with it from then on. The key before
// stays published for one more turn.
func (r *rotation) rotate(t *testing.T, goes func() bool, refresh time.Duration) {
	var before *oauthtest.Key
	for n := 0; goes(); n++ {
		current, next := r.current.Load(), oauthtest.NewKey(t, fmt.Sprint("key", n), "ES256")
		keys := []*oauthtest.Key{current, next}
		if before != nil {
			keys = append(keys, before)
		}
		r.issuer.Publish(keys...)
		time.Sleep(refresh)
		before = current
		r.current.Store(next)
		r.turn.Add(1)
		time.Sleep(refresh / 2)
	}
}

// come and go: the issuer is away for half of the time.
func (r *rotation) come(goes func() bool, every time.Duration) {
	for away := false; goes(); away = !away {
		r.issuer.SetAway(away)
		time.Sleep(every)
	}
	r.issuer.SetAway(false)
}

// call shows tokens of the current key, most of them more than once.
func (r *rotation) call(t *testing.T, goes func() bool) {
	type signed struct {
		token string
		turn  int64
	}
	tokens := make(chan signed)
	var all sync.WaitGroup
	for range r.workers {
		all.Go(func() {
			for one := range tokens {
				said := r.present(one.token)
				r.calls.Add(1)
				switch {
				case said == "":
				case said == "unavailable":
					r.unavailable.Add(1)
				case r.turn.Load() >= one.turn+2:
					// On a busy machine its key was withdrawn before the answer.
				default:
					t.Errorf("a good token is refused: %s", said)
				}
			}
		})
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var one signed
	for n := 0; goes() && !t.Failed(); n++ {
		<-tick.C
		if n%5 == 0 {
			one.turn = r.turn.Load() // of the key, or of the one before it where they change just now
			k := r.current.Load()
			one.token = k.Sign(map[string]any{"alg": "ES256", "kid": k.ID}, r.issuer.Claims(resource))
		}
		tokens <- one
	}
	close(tokens)
	all.Wait()
}

// attack shows tokens with random kids.
func (r *rotation) attack(t *testing.T, goes func() bool) {
	k := oauthtest.NewKey(t, "", "ES256")
	for goes() {
		if r.present(k.Sign(map[string]any{"alg": "ES256", "kid": rand.Text()}, r.issuer.Claims(resource))) == "" {
			t.Error("a token of the attacker has passed")
			return
		}
		r.attacks.Add(1)
		time.Sleep(r.pause)
	}
}
