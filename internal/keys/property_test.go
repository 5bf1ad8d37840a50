// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawBinding(t *rapid.T, label string) Binding {
	b := Binding{
		Purpose:   rapid.StringN(1, 8, -1).Draw(t, label+" purpose"),
		Principal: rapid.StringN(0, 8, -1).Draw(t, label+" principal"),
	}
	copy(b.Digest[:], rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label+" digest"))
	return b
}

func TestWhatIsSealedOpens(t *testing.T) {
	t.Parallel()
	c := newClock()
	one, another := NewSealer(SealerOptions{Keys: keysOf(1, 2), Now: c.now}), NewSealer(SealerOptions{Keys: keysOf(2, 1), Now: c.now})
	rapid.Check(t, func(t *rapid.T) {
		b, payload := drawBinding(t, "its"), rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		b.TTL = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(NoExpiry)).Draw(t, "ttl"))
		token, err := one.Seal(b, payload)
		if err != nil || len(token) != SealedLen(len(payload)) {
			t.Fatalf("%q, %v", token, err)
		}
		b.TTL = 0
		if got, err := another.Open(b, token); err != nil || !bytes.Equal(got, payload) {
			t.Fatalf("%q, %v; want %q", got, err, payload)
		}
	})
}

func TestNothingElseOpens(t *testing.T) {
	t.Parallel()
	s := NewSealer(SealerOptions{Keys: keysOf(1, 2)})
	rapid.Check(t, func(t *rapid.T) {
		b, other := drawBinding(t, "its"), drawBinding(t, "another")
		token, err := s.Seal(b, rapid.SliceOf(rapid.Byte()).Draw(t, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(other, token); other != b && !errors.Is(err, errInvalid) {
			t.Fatalf("opened for %v: %v", other, err)
		}
		changed := []byte(token)
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		changed[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		cut := token[:rapid.IntRange(0, len(token)-1).Draw(t, "length")]
		inserted := token[:at] + rapid.StringN(1, 4, -1).Draw(t, "inserted") + token[at:]
		for _, bad := range []string{string(changed), cut, inserted} {
			if got, err := s.Open(b, bad); !errors.Is(err, errInvalid) || got != nil {
				t.Fatalf("%q beside %q opens: %q, %v", bad, token, got, err)
			}
		}
	})
}

// TestEveryCharacterCounts changes each character of a token to each other one
// of the alphabet.
func TestEveryCharacterCounts(t *testing.T) {
	t.Parallel()
	s := fixed(newClock(), 1)
	token := mustSeal(t, s, alice(), "1234")
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/"
	for at := range token {
		for _, c := range []byte(alphabet) {
			changed := []byte(token)
			changed[at] = c
			if _, err := s.Open(alice(), string(changed)); (err == nil) != (c == token[at]) || err != nil && !errors.Is(err, errInvalid) {
				t.Errorf("%q at %d: %v", c, at, err)
			}
		}
	}
}
