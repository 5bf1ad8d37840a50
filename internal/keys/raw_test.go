// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// TestRaw: the bytes of a token open as those of a token only, in the same place, and
// unchanged.
func TestRaw(t *testing.T) {
	t.Parallel()
	s := keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys(), MaxPayload: 1000})
	b := keys.Binding{Purpose: "store", Digest: keys.Digest([]byte("key")), TTL: keys.NoExpiry}
	payload := bytes.Repeat([]byte("x"), 1000)
	raw, err := s.SealRaw(b, []byte("head"), payload)
	if err != nil || string(raw[:4]) != "head" || len(raw) != 4+len(payload)+keys.Overhead {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	raw = raw[4:]
	if got, err := s.OpenRaw(b, raw); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	elsewhere := b
	elsewhere.Digest = keys.Digest([]byte("other"))
	for name, open := range map[string]func() ([]byte, error){
		"another place":  func() ([]byte, error) { return s.OpenRaw(elsewhere, raw) },
		"another key":    func() ([]byte, error) { return keys.NewSealer(keys.SealerOptions{}).OpenRaw(b, raw) },
		"cut":            func() ([]byte, error) { return s.OpenRaw(b, raw[:len(raw)-1]) },
		"almost nothing": func() ([]byte, error) { return s.OpenRaw(b, raw[:keys.Overhead-1]) },
		"too long":       func() ([]byte, error) { return s.OpenRaw(b, append(bytes.Clone(raw), 0)) },
		"changed":        func() ([]byte, error) { return s.OpenRaw(b, append([]byte{raw[0] ^ 1}, raw[1:]...)) },
	} {
		if got, err := open(); !errors.Is(err, keys.ErrInvalid) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var large *keys.TooLargeError
	if _, err := s.SealRaw(b, nil, append(payload, 0)); !errors.As(err, &large) {
		t.Errorf("a payload above the limit: %v", err)
	}
}
