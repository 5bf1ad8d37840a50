// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

const (
	// KeyBytes is the size of a key, that of AES-256.
	KeyBytes = 32
	// maxKeys is the maximum number of keys at a time. Rotation needs two, or three if a
	// rollout overlaps the next one.
	maxKeys = 8
	// maxKeyFileBytes bounds a key file. [maxKeys] lines take 360 bytes, and the rest is
	// for comments.
	maxKeyFileBytes = 64 << 10
	// keyIDBytes is enough to tell maxKeys keys apart. Two keys with one id are
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
	text, err := ReadFile(path, maxKeyFileBytes)
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
	if len(text) > maxKeyFileBytes {
		return nil, fmt.Errorf("the keys have more than %d bytes", maxKeyFileBytes)
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
		if len(keys.list) == maxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys; remove the oldest, because nothing sealed with them is still valid", n, maxKeys)
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

// SingleUse remembers tokens that may be used only once: those of one process, or of all replicas.
type SingleUse interface {
	// Spend reports whether the token may be used. It returns true exactly once for each token until the given time, which is
	// the token's own expiry. After an error it is not known.
	Spend(ctx context.Context, token string, until time.Time) (fresh bool, err error)
}

// defaultMaxSpent is the maximum number of tokens that a [Spent] remembers: 72 a second
// over [defaults.StateTTL], in about 10 MB.
const defaultMaxSpent = 1 << 16

// SpentOptions configure a [Spent]. Zero fields take the defaults of this
// package.
type SpentOptions struct {
	// Max is the maximum number of remembered tokens.
	Max int
	// Now is the clock. Use that of the [Sealer]. Nil means [time.Now].
	Now func() time.Time
}

// Spent is the [SingleUse] of one process: it does not detect a replay to another replica. Make one with [NewSpent].
type Spent struct {
	max int
	now func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]struct{}
	// order is by expiry. Tokens of one lifetime come in that order.
	order []expiry
	// latest is the latest moment seen: a clock that is set back must not bring
	// back what was forgotten.
	latest time.Time
}

type expiry struct {
	until time.Time
	sum   [sha256.Size]byte
}

// NewSpent returns an empty Spent.
func NewSpent(o SpentOptions) *Spent {
	s := &Spent{max: o.Max, now: o.Now, known: map[[sha256.Size]byte]struct{}{}}
	defaults.Fill(&s.max, defaultMaxSpent)
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Spend implements [SingleUse]. It returns
// false if the token was already spent, if that time has passed, or if the Spent
// is full of unexpired tokens, because a token that is not remembered could be used
// again. Pass only tokens that were opened. Otherwise any caller could fill it. There is no error.
func (s *Spent) Spend(_ context.Context, token string, until time.Time) (bool, error) {
	// The hash makes every entry small, however long the token.
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	if _, again := s.known[sum]; again || !s.latest.Before(until) || len(s.known) >= s.max {
		return false, nil
	}
	s.known[sum] = struct{}{}
	at := len(s.order)
	for at > 0 && s.order[at-1].until.After(until) {
		at--
	}
	s.order = slices.Insert(s.order, at, expiry{until, sum})
	return true, nil
}

// forget drops what has expired. Each entry is dropped once, so its cost belongs
// to the call that made it.
func (s *Spent) forget() {
	if now := s.now(); now.After(s.latest) {
		s.latest = now
	}
	for len(s.order) > 0 && !s.latest.Before(s.order[0].until) {
		delete(s.known, s.order[0].sum)
		s.order = s.order[1:]
	}
}
