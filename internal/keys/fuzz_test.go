// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// FuzzOpen: no token panics, and none opens that was not sealed here.
func FuzzOpen(f *testing.F) {
	s := fixed(newClock(), 1, 2)
	sealed := map[string]string{}
	for _, payload := range []string{"", "1", "12", "123", strings.Repeat("x", 100)} {
		token, err := s.Seal(alice(), []byte(payload))
		if err != nil {
			f.Fatal(err)
		}
		sealed[token] = payload
		f.Add(token)
		f.Add(token + "=")
		f.Add(token[:len(token)-1])
	}
	f.Add("")
	f.Add("v1.")
	f.Add("v1." + strings.Repeat("A", 70))
	f.Fuzz(func(t *testing.T, token string) {
		got, until, err := s.OpenUntil(alice(), token)
		payload, ours := sealed[token]
		switch {
		case ours && (err != nil || string(got) != payload || until.IsZero()):
			t.Fatalf("a token of ours: %q until %s, %v", got, until, err)
		case !ours && (!errors.Is(err, errInvalid) || got != nil || !until.IsZero()):
			t.Fatalf("%q opens: %q until %s, %v", token, got, until, err)
		}
	})
}

// FuzzParseKeys: no text panics, an error shows nothing of it, and what is
// accepted are exactly the keys that another reading finds.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(std(1)))
	f.Add([]byte("# a\r\n" + std(1) + " # b\r\n\r\n" + strings.TrimRight(std(2), "=")))
	f.Add([]byte(std(1) + "\n" + std(1)))
	f.Add([]byte(strings.Repeat("A", 43)))
	f.Add([]byte("-" + strings.Repeat("_", 42) + "="))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := ParseKeys(text)
		checkNoSecret(t, string(text), err)
		want := readKeys(text)
		if (err == nil) != (want != nil) || keys.Len() != len(want) {
			t.Fatalf("%d keys, %v; another reading finds %d", keys.Len(), err, len(want))
		}
		for i := range want {
			if !bytes.Equal(keys.list[i].secret[:], want[i]) {
				t.Fatalf("key %d differs from that of another reading", i)
			}
		}
	})
}

// readKeys is a second opinion on ParseKeys: nil where something is wrong.
func readKeys(text []byte) [][]byte {
	var out [][]byte
	if len(text) > maxKeyFileBytes {
		return nil
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSpace(strings.SplitN(line, "#", 2)[0])
		if line == "" {
			continue
		}
		var found []byte
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			raw, err := e.DecodeString(line)
			// Written again it has to be the same, which leaves no room for spaces,
			// line ends and bits that do not count.
			if err == nil && e.EncodeToString(raw) == line {
				found = raw
			}
		}
		if len(found) != KeyBytes || bytes.Count(found, found[:1]) == KeyBytes {
			return nil
		}
		for _, other := range out {
			if bytes.Equal(other, found) {
				return nil
			}
		}
		out = append(out, found)
	}
	if len(out) > maxKeys {
		return nil
	}
	return out
}
