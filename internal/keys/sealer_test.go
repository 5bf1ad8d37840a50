// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

func alice() Binding {
	return Binding{Purpose: "request state", Principal: "alice", Digest: Digest([]byte("tools/call"), []byte(`{"a":1}`))}
}

// TestTokenIsStable keeps the format: replicas of one release and the next have
// to understand each other.
func TestTokenIsStable(t *testing.T) {
	t.Parallel()
	const want = "v1.0ngjYOWrgtU4gV0rhICNA3TQ_oX3PSdxZsJoMCzvAeCPr9Q5Q3SpwBhbZK42eg7Sjo5d0zMJ6VOL_g"
	c := newClock()
	if got := mustSeal(t, fixed(c, 1), alice(), "step 2"); got != want {
		t.Errorf("the format changed: %s, want %s", got, want)
	}
	if got, err := fixed(c, 2, 1).Open(alice(), want); err != nil || string(got) != "step 2" {
		t.Errorf("opened %q, %v", got, err)
	}
}

func TestOpenOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := fixed(c, 1)
	token := mustSeal(t, s, alice(), "step 2")
	tests := []struct {
		name   string
		change func(*Binding)
		want   error
	}{
		{"the same", func(*Binding) {}, nil},
		{"another TTL is no difference", func(b *Binding) { b.TTL = time.Hour }, nil},
		{"another purpose", func(b *Binding) { b.Purpose = "cursor" }, errInvalid},
		{"no purpose", func(b *Binding) { b.Purpose = "" }, errInvalid},
		{"another caller", func(b *Binding) { b.Principal = "bob" }, errInvalid},
		{"no caller", func(b *Binding) { b.Principal = "" }, errInvalid},
		{"the border moved", func(b *Binding) { b.Purpose, b.Principal = "request statea", "lice" }, errInvalid},
		{"other arguments", func(b *Binding) { b.Digest = Digest([]byte("tools/call"), []byte(`{"a":2}`)) }, errInvalid},
		{"no digest", func(b *Binding) { b.Digest = [32]byte{} }, errInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := alice()
			tt.change(&b)
			got, err := s.Open(b, token)
			if !errors.Is(err, tt.want) || (err == nil) != (string(got) == "step 2") || (err != nil && got != nil) {
				t.Errorf("opened %q, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestOneSpelling(t *testing.T) {
	t.Parallel()
	// One payload for each number of bits left over in the last character.
	for _, payload := range []string{"", "1", "12"} {
		s := fixed(newClock(), 1)
		token := mustSeal(t, s, alice(), payload)
		others := []string{
			"", "v1.", token[1:], token[3:], "v2." + token[3:], "V1." + token[3:], "v1" + token[3:], " " + token,
			token + "=", token + "==", token + "\n", token + "A", token + "AAAA", token[:len(token)-1], token + token, token + "." + token,
			strings.Replace(token, "v1.", "v1.\n", 1), token[:20] + "\r\n" + token[20:], token[:20] + "=" + token[20:],
			prefix + base64.URLEncoding.EncodeToString(mustDecode(t, token)) + "=", strings.Repeat("A", len(token)),
		}
		for c := range 256 {
			others = append(others, token[:len(token)-1]+string([]byte{byte(c)}))
		}
		for _, other := range others {
			got, err := s.Open(alice(), other)
			if other == token {
				if err != nil || string(got) != payload {
					t.Errorf("the token itself: %q, %v", got, err)
				}
				continue
			}
			if !errors.Is(err, errInvalid) || got != nil {
				t.Errorf("%q beside %q opens: %q, %v", other, token, got, err)
			}
		}
	}
}

func mustDecode(t *testing.T, token string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, prefix))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		options        time.Duration
		binding        time.Duration
		last, firstBad time.Duration
	}{
		{"by default", 0, 0, 900*time.Second - time.Millisecond, 900 * time.Second},
		{"by the options", time.Minute, 0, 59 * time.Second, time.Minute},
		{"by the binding", time.Minute, time.Second, 999 * time.Millisecond, time.Second},
		{"longer by the binding", time.Minute, time.Hour, 59 * time.Minute, time.Hour},
		{"much longer", time.Minute, NoExpiry, 100 * 365 * 24 * time.Hour, NoExpiry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s := NewSealer(SealerOptions{Now: c.now, TTL: tt.options})
			b := alice()
			b.TTL = tt.binding
			token, start := mustSeal(t, s, b, "x"), c.t
			c.t = start.Add(tt.last)
			got, until, err := s.OpenUntil(b, token)
			if err != nil || string(got) != "x" || !until.Equal(start.Add(tt.firstBad).Truncate(time.Millisecond)) {
				t.Errorf("after %s: %q until %s, %v", tt.last, got, until, err)
			}
			c.t = start.Add(tt.firstBad)
			if got, err := s.Open(b, token); !errors.Is(err, ErrExpired) || got != nil {
				t.Errorf("after %s: %q, %v; want ErrExpired", tt.firstBad, got, err)
			}
			// Who is not the caller does not learn that it has expired.
			b.Principal = "bob"
			if _, err := s.Open(b, token); !errors.Is(err, errInvalid) {
				t.Errorf("an expired token of another caller: %v, want ErrInvalid", err)
			}
		})
	}
}

func TestSealRefuses(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	tests := []struct {
		name    string
		options SealerOptions
		binding Binding
		payload int
		check   func(error) bool
	}{
		{"no purpose", SealerOptions{}, Binding{Principal: "alice"}, 1, func(err error) bool { return strings.Contains(err.Error(), "purpose") }},
		{"a TTL in the past", SealerOptions{}, Binding{Purpose: "p", TTL: -time.Second}, 1, func(err error) bool { return strings.Contains(err.Error(), "1s before") }},
		{"too much by default", SealerOptions{}, Binding{Purpose: "p"}, defaultMaxPayload + 1, func(err error) bool {
			var large *TooLargeError
			return errors.As(err, &large) && large.Size == defaultMaxPayload+1 && large.Limit == defaultMaxPayload
		}},
		{"too much by the option", SealerOptions{MaxPayload: 10}, Binding{Purpose: "p"}, 11, func(err error) bool {
			return err.Error() == "seal: the payload has 11 bytes, over the limit of 10"
		}},
		{"no randomness", SealerOptions{Rand: iotest.ErrReader(broken)}, Binding{Purpose: "p"}, 1, func(err error) bool { return errors.Is(err, broken) }},
		{"too little randomness", SealerOptions{Rand: bytes.NewReader(make([]byte, saltBytes-1))}, Binding{Purpose: "p"}, 1, func(err error) bool { return err != nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			token, err := NewSealer(tt.options).Seal(tt.binding, make([]byte, tt.payload))
			if err == nil || token != "" || !tt.check(err) {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	s := NewSealer(SealerOptions{})
	b := Binding{Purpose: strings.Repeat("p", 1000), Principal: strings.Repeat("q", 10_000)}
	for _, n := range []int{0, 1, 2, 3, 96, 137, 138, 1000, 49_097, 49_098, defaultMaxPayload} {
		payload := bytes.Repeat([]byte{0xff}, n)
		token, err := s.Seal(b, payload)
		if err != nil || len(token) != SealedLen(n) {
			t.Fatalf("%d bytes: a token of %d, %v; want %d", n, len(token), err, SealedLen(n))
		}
		if i := strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
			t.Errorf("%q is not visible ASCII", token)
		}
		if got, err := s.Open(b, token); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, limit := range []struct{ payload, token int }{{96, 201}, {137, 255}, {138, 257}, {49_097, 65_535}, {49_098, 65_537}} {
		if got := SealedLen(limit.payload); got != limit.token {
			t.Errorf("SealedLen(%d) = %d, want %d", limit.payload, got, limit.token)
		}
	}
}

// TestLongTokensAreNotRead: what no payload could have made is refused by its
// length, even where the keys would open it.
func TestLongTokensAreNotRead(t *testing.T) {
	t.Parallel()
	keys := keysOf(1)
	large, small := NewSealer(SealerOptions{Keys: keys}), NewSealer(SealerOptions{Keys: keys, MaxPayload: 10})
	for n, want := range map[int]error{10: nil, 12: errInvalid, 1000: errInvalid} {
		token := mustSeal(t, large, alice(), strings.Repeat("x", n))
		if _, err := small.Open(alice(), token); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
}

func TestSealingTwiceGivesTwoTokens(t *testing.T) {
	t.Parallel()
	s := NewSealer(SealerOptions{})
	if a, b := mustSeal(t, s, alice(), "x"), mustSeal(t, s, alice(), "x"); a == b {
		t.Errorf("%s twice", a)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	c := newClock()
	old, other := NewSealer(SealerOptions{Keys: keysOf(1), Now: c.now}), NewSealer(SealerOptions{Keys: keysOf(1), Now: c.now})
	token := mustSeal(t, old, alice(), "x")
	opens := func(s *Sealer, token string, want error) {
		t.Helper()
		if _, err := s.Open(alice(), token); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	opens(other, token, nil)
	// First every replica learns the new key, then it comes to the top, then the
	// old one goes.
	for _, keys := range []*Keys{keysOf(1, 2), keysOf(2, 1)} {
		if !other.Replace(keys) {
			t.Fatal("not replaced")
		}
		opens(other, token, nil)
	}
	fresh := mustSeal(t, other, alice(), "x")
	opens(old, fresh, errInvalid)
	old.Replace(keysOf(1, 2))
	opens(old, fresh, nil)
	other.Replace(keysOf(2))
	opens(other, token, errInvalid)
	opens(other, fresh, nil)
	for _, none := range []*Keys{nil, {}} {
		if other.Replace(none) {
			t.Error("replaced by nothing")
		}
		opens(other, fresh, nil)
	}
}

func TestKeysWithOneID(t *testing.T) {
	t.Parallel()
	keys := keysOf(1, 2)
	keys.list[1].id = keys.list[0].id
	c := newClock()
	first, second := &Keys{list: keys.list[:1]}, &Keys{list: keys.list[1:]}
	for _, sealing := range []*Keys{first, second} {
		token := mustSeal(t, NewSealer(SealerOptions{Keys: sealing, Now: c.now}), alice(), "x")
		if got, err := NewSealer(SealerOptions{Keys: keys, Now: c.now}).Open(alice(), token); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
	}
	token := mustSeal(t, NewSealer(SealerOptions{Keys: first, Now: c.now}), alice(), "x")
	if _, err := NewSealer(SealerOptions{Keys: second, Now: c.now}).Open(alice(), token); !errors.Is(err, errInvalid) {
		t.Errorf("the wrong key with the right id: %v", err)
	}
}

func TestRandomKeysAreApart(t *testing.T) {
	t.Parallel()
	token := mustSeal(t, NewSealer(SealerOptions{}), alice(), "x")
	if _, err := NewSealer(SealerOptions{}).Open(alice(), token); !errors.Is(err, errInvalid) {
		t.Errorf("opened with a key that was made up elsewhere: %v", err)
	}
}

// TestAllAtOnce seals, opens and replaces keys from many goroutines.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	s := NewSealer(SealerOptions{Keys: keysOf(1, 2), Rand: rand.NewChaCha8([32]byte{})})
	var working sync.WaitGroup
	for range 8 {
		working.Go(func() {
			for range 200 {
				token, err := s.Seal(alice(), []byte("x"))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Open(alice(), token); err != nil || string(got) != "x" {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	for n := range 200 {
		s.Replace([]*Keys{keysOf(2, 1), keysOf(1, 2, 3)}[n%2])
	}
	working.Wait()
}

func TestDigestIsUnambiguous(t *testing.T) {
	t.Parallel()
	lists := [][][]byte{
		nil, {nil}, {nil, nil}, {[]byte("ab")}, {[]byte("a"), []byte("b")}, {[]byte("ab"), nil}, {nil, []byte("ab")},
		{[]byte("b"), []byte("a")}, {make([]byte, 8)}, {make([]byte, 16)}, {[]byte("\x00\x00\x00\x00\x00\x00\x00\x01a")},
	}
	seen := map[[32]byte]int{}
	for i, list := range lists {
		sum := Digest(list...)
		if j, ok := seen[sum]; ok {
			t.Errorf("%q and %q have one digest", lists[j], list)
		}
		seen[sum] = i
		if again := Digest(list...); again != sum {
			t.Errorf("%q has two digests", list)
		}
	}
}
