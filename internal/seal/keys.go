// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

const (
	// KeyBytes is the size of a key, that of AES-256.
	KeyBytes = 32
	// MaxKeys is the maximum number of keys at a time. Rotation needs two, or three if a
	// rollout overlaps the next one.
	MaxKeys = 8
	// MaxKeyFileBytes bounds a key file. [MaxKeys] lines take 360 bytes, and the rest is
	// for comments.
	MaxKeyFileBytes = 64 << 10
	// keyIDBytes is enough to tell MaxKeys keys apart. Two keys with one id are
	// both tried.
	keyIDBytes = 4
	// keyIDLabel and cipherLabel have the same length, so that what is derived for
	// one use never equals what is derived for the other.
	keyIDLabel  = "outrigger seal v1 key id"
	cipherLabel = "outrigger seal v1 cipher"
)

// key is one secret. Its id is derived from it and may be shown.
type key struct {
	id     [keyIDBytes]byte
	secret [KeyBytes]byte
}

// Keys are the keys of a [Sealer]: the first one seals, all of them open. They are
// immutable, and no format verb prints a secret. Make them with [ParseKeys], [LoadKeys]
// or [RandomKeys].
type Keys struct {
	list []key
}

// Len returns the number of keys.
func (k *Keys) Len() int {
	if k == nil {
		return 0
	}
	return len(k.list)
}

// Format implements [fmt.Formatter] for every verb. It prints the number of keys and
// their ids, newest first, so that operators can compare replicas by their logs.
func (k *Keys) Format(f fmt.State, _ rune) {
	ids := make([]string, k.Len())
	for i := range ids {
		ids[i] = hex.EncodeToString(k.list[i].id[:])
	}
	fmt.Fprintf(f, "%d keys %v", len(ids), ids)
}

// RandomKeys returns one random key for this process only. Other replicas cannot open
// its tokens, and neither can this process after a restart.
func RandomKeys() *Keys {
	var secret [KeyBytes]byte
	// Never fails: crypto/rand ends the process where the system has no
	// randomness (Go 1.24).
	_, _ = rand.Read(secret[:])
	return &Keys{list: []key{newKey(secret)}}
}

func newKey(secret [KeyBytes]byte) key {
	k := key{secret: secret}
	// Fails for outputs of more than 255 hashes only.
	id, _ := hkdf.Expand(sha256.New, secret[:], keyIDLabel, keyIDBytes)
	copy(k.id[:], id)
	return k
}

// LoadKeys reads a key file; see [ParseKeys]. Its errors name the file and never show a
// key.
func LoadKeys(path string) (*Keys, error) {
	text, err := tlsfiles.Read(path, MaxKeyFileBytes)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	keys, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, nil
}

// ParseKeys parses keys, one per line: [KeyBytes] bytes in base64, in the standard or
// the URL-safe alphabet, with or without padding. It ignores blank lines, and comments
// from # to the end of the line. It rejects duplicate keys, which are mistakes, and keys
// that repeat one byte, which are placeholders. Errors name the line and never show its
// contents.
func ParseKeys(text []byte) (*Keys, error) {
	if len(text) > MaxKeyFileBytes {
		return nil, fmt.Errorf("the keys have more than %d bytes", MaxKeyFileBytes)
	}
	keys := &Keys{}
	lines := map[[KeyBytes]byte]int{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line, _, _ = bytes.Cut(line, []byte("#"))
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		secret, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first, twice := lines[secret]; twice {
			return nil, fmt.Errorf("line %d: duplicates the key of line %d; remove one of them", n, first)
		}
		if len(keys.list) == MaxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys; remove the oldest, because nothing sealed with them is still valid", n, MaxKeys)
		}
		lines[secret] = n
		keys.list = append(keys.list, newKey(secret))
	}
	if len(keys.list) == 0 {
		return nil, errors.New("the file has no key; generate one with: openssl rand -base64 32")
	}
	return keys, nil
}

func parseKey(line []byte) ([KeyBytes]byte, error) {
	var secret [KeyBytes]byte
	raw, err := spelling(line).Strict().AppendDecode(nil, line)
	switch {
	case err != nil || bytes.ContainsRune(line, '\r'):
		// The decoder skips carriage returns. Its error is not wrapped: it tells
		// where in the key it stopped.
		return secret, fmt.Errorf("not base64; want %d bytes in base64", KeyBytes)
	case len(raw) != KeyBytes:
		return secret, fmt.Errorf("%d bytes; want exactly %d in base64", len(raw), KeyBytes)
	case !slices.ContainsFunc(raw, func(b byte) bool { return b != raw[0] }):
		return secret, errors.New("the key is one repeated byte; generate one with: openssl rand -base64 32")
	}
	copy(secret[:], raw)
	return secret, nil
}

// spelling is the only form of base64 that a line can be in.
func spelling(line []byte) *base64.Encoding {
	url, padded := bytes.ContainsAny(line, "-_"), bytes.HasSuffix(line, []byte("="))
	switch {
	case url && padded:
		return base64.URLEncoding
	case url:
		return base64.RawURLEncoding
	case padded:
		return base64.StdEncoding
	}
	return base64.RawStdEncoding
}
