// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is set by hand.
type clock struct{ t time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

// secret returns the n-th of a fixed list of keys.
func secret(n byte) [KeyBytes]byte {
	var out [KeyBytes]byte
	source := rand.NewChaCha8([32]byte{n})
	_, _ = source.Read(out[:])
	return out
}

// keysOf returns fixed keys, the first of which seals.
func keysOf(numbers ...byte) *Keys {
	keys := &Keys{}
	for _, n := range numbers {
		keys.list = append(keys.list, newKey(secret(n)))
	}
	return keys
}

// fixed returns a Sealer that gives the same tokens in every run.
func fixed(c *clock, numbers ...byte) *Sealer {
	return NewSealer(SealerOptions{Keys: keysOf(numbers...), Now: c.now, Rand: rand.NewChaCha8([32]byte{99})})
}

func mustSeal(t testing.TB, s *Sealer, b Binding, payload string) string {
	t.Helper()
	token, err := s.Seal(b, []byte(payload))
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	return token
}
