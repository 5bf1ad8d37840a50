// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// TestRaw: the bytes of a token open as those of a token only, in the same place, and
// unchanged.
func TestRaw(t *testing.T) {
	t.Parallel()
	s := seal.New(seal.Options{Keys: seal.RandomKeys(), MaxPayload: 1000})
	b := seal.Binding{Purpose: "store", Digest: seal.Digest([]byte("key")), TTL: seal.NoExpiry}
	payload := bytes.Repeat([]byte("x"), 1000)
	raw, err := s.SealRaw(b, []byte("head"), payload)
	if err != nil || string(raw[:4]) != "head" || len(raw) != 4+len(payload)+seal.Overhead {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	raw = raw[4:]
	if got, err := s.OpenRaw(b, raw); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	elsewhere := b
	elsewhere.Digest = seal.Digest([]byte("other"))
	for name, open := range map[string]func() ([]byte, error){
		"another place":  func() ([]byte, error) { return s.OpenRaw(elsewhere, raw) },
		"another key":    func() ([]byte, error) { return seal.New(seal.Options{}).OpenRaw(b, raw) },
		"cut":            func() ([]byte, error) { return s.OpenRaw(b, raw[:len(raw)-1]) },
		"almost nothing": func() ([]byte, error) { return s.OpenRaw(b, raw[:seal.Overhead-1]) },
		"too long":       func() ([]byte, error) { return s.OpenRaw(b, append(bytes.Clone(raw), 0)) },
		"changed":        func() ([]byte, error) { return s.OpenRaw(b, append([]byte{raw[0] ^ 1}, raw[1:]...)) },
	} {
		if got, err := open(); !errors.Is(err, seal.ErrInvalid) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var large *seal.TooLargeError
	if _, err := s.SealRaw(b, nil, append(payload, 0)); !errors.As(err, &large) {
		t.Errorf("a payload above the limit: %v", err)
	}
}
