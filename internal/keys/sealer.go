// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

const (
	// defaultMaxPayload is more than the largest request state that
	// outrigger.v1.InputRequired admits (48 KiB).
	defaultMaxPayload = 64 << 10
	// Overhead is the number of bytes that a token adds to its payload, before base64.
	Overhead = keyIDBytes + saltBytes + expiryBytes + tagBytes

	prefix      = "v1."
	saltBytes   = 24
	expiryBytes = 8
	tagBytes    = 16
	aesKeyBytes = 32
	nonceBytes  = 12
)

// Errors of [Sealer.Open].
var (
	// errInvalid means that the token was changed, was not sealed here, or was made for
	// another purpose, caller or request. The error does not reveal which.
	errInvalid = errors.New("seal: the token is not valid here")
	// ErrExpired means that the token is authentic and has expired.
	ErrExpired = errors.New("seal: the token has expired")
)

// TooLargeError reports a payload over [SealerOptions.MaxPayload].
type TooLargeError struct {
	// Size is the size of the payload, Limit the maximum, in bytes.
	Size, Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("seal: the payload has %d bytes, over the limit of %d", e.Size, e.Limit)
}

// SealerOptions configure a [Sealer]. Zero fields take the defaults of this package.
type SealerOptions struct {
	// Keys seal and open tokens. Nil means [RandomKeys].
	Keys *Keys
	// TTL is the lifetime of a token whose binding sets none.
	TTL time.Duration
	// MaxPayload bounds a payload, in bytes. Open rejects tokens longer than that of the
	// largest payload without reading them.
	MaxPayload int
	// Now is the clock. Nil means [time.Now]. The clock skew between replicas must be
	// small compared to the TTL.
	Now func() time.Time
	// Rand is the source of salts, read by one goroutine at a time. Nil means
	// crypto/rand.
	Rand io.Reader
}

// Binding is the context that a token is bound to. All fields except TTL must be the
// same when the token is opened.
type Binding struct {
	// Purpose is the kind of token, for example "cursor". It is required.
	Purpose string
	// Principal is the caller.
	Principal string
	// Digest covers everything else that must not change; see [Digest]. Zero means
	// nothing.
	Digest [32]byte
	// TTL replaces [SealerOptions.TTL] if it is not zero. Use [NoExpiry] for a token that stays
	// valid as long as its key. Open ignores it.
	TTL time.Duration
}

// NoExpiry is a TTL of 292 years.
const NoExpiry = time.Duration(1<<63 - 1)

// Sealer seals and opens tokens. Make one with [NewSealer].
type Sealer struct {
	keys       atomic.Pointer[Keys]
	ttl        time.Duration
	maxPayload int
	now        func() time.Time

	reading sync.Mutex // one reader of rand at a time
	rand    io.Reader
}

// NewSealer returns a Sealer.
func NewSealer(o SealerOptions) *Sealer {
	s := &Sealer{ttl: o.TTL, maxPayload: o.MaxPayload, now: o.Now, rand: o.Rand}
	defaults.Fill(&s.ttl, defaults.StateTTL)
	defaults.Fill(&s.maxPayload, defaultMaxPayload)
	if s.now == nil {
		s.now = time.Now
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	if !s.Replace(o.Keys) {
		s.keys.Store(RandomKeys())
	}
	return s
}

// Replace replaces the keys for all later calls and reports whether it did. Nil or empty
// keys change nothing, because a failed reload must not invalidate every token.
func (s *Sealer) Replace(keys *Keys) bool {
	if keys.Len() == 0 {
		return false
	}
	s.keys.Store(keys)
	return true
}

// Secret derives a key for another use from the newest key, the same at each replica that has it. The label names the use.
func (s *Sealer) Secret(label string) []byte {
	// Fails for outputs of more than 255 hashes only.
	out, _ := hkdf.Expand(sha256.New, s.keys.Load().list[0].secret[:], "outrigger use v1 "+label, KeyBytes)
	return out
}

// SealedLen returns the length of the token for a payload of n bytes. It depends on
// nothing else. The limit of a task id, 256 characters, fits a payload of up to 137
// bytes; 64 KiB fit one of up to 49,097 bytes.
func SealedLen(n int) int {
	return len(prefix) + base64.RawURLEncoding.EncodedLen(n+Overhead)
}

// Seal returns a token of [SealedLen] visible ASCII characters. [Sealer.Open] accepts it
// until its TTL has passed. Sealing the same payload twice gives two different tokens.
// The error is a *[TooLargeError], an error about the binding, or that of
// [SealerOptions.Rand].
func (s *Sealer) Seal(b Binding, payload []byte) (string, error) {
	raw, err := s.SealRaw(b, nil, payload)
	if err != nil {
		return "", err
	}
	return prefix + base64.RawURLEncoding.EncodeToString(raw), nil
}

// SealRaw appends the bytes of a token to dst, without the prefix and the base64 of
// [Sealer.Seal], for a store of bytes. [Sealer.OpenRaw] accepts them.
func (s *Sealer) SealRaw(b Binding, dst, payload []byte) ([]byte, error) {
	ttl := b.TTL
	if ttl == 0 {
		ttl = s.ttl
	}
	switch {
	case b.Purpose == "":
		return nil, errors.New("seal: a binding needs a purpose")
	case ttl < 0:
		return nil, fmt.Errorf("seal: a token cannot expire %s before it was made", -ttl)
	case len(payload) > s.maxPayload:
		return nil, &TooLargeError{Size: len(payload), Limit: s.maxPayload}
	}
	k := &s.keys.Load().list[0]
	raw := append(slices.Grow(dst, len(payload)+Overhead), k.id[:]...)
	raw = raw[:len(raw)+saltBytes]
	salt := raw[len(raw)-saltBytes:]
	if err := s.read(salt); err != nil {
		return nil, fmt.Errorf("seal: read random bytes: %w", err)
	}
	aead, nonce, err := k.cipher(salt)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, 0, expiryBytes+len(payload))
	plain = binary.BigEndian.AppendUint64(plain, uint64(s.now().Add(ttl).UnixMilli()))
	plain = append(plain, payload...)
	return aead.Seal(raw, nonce, plain, b.associated()), nil
}

// Open returns the payload of a token that was sealed with the same purpose, principal
// and digest. The error is [errInvalid] or [ErrExpired], and neither reveals anything of
// an authentic token.
func (s *Sealer) Open(b Binding, token string) ([]byte, error) {
	payload, _, err := s.OpenUntil(b, token)
	return payload, err
}

// OpenUntil is like Open and also returns the expiry of the token, for [Spent.Spend].
func (s *Sealer) OpenUntil(b Binding, token string) ([]byte, time.Time, error) {
	raw, ok := s.decode(token)
	if !ok {
		return nil, time.Time{}, errInvalid
	}
	return s.openUntil(b, raw)
}

// OpenRaw is [Sealer.Open] for the bytes that [Sealer.SealRaw] made.
func (s *Sealer) OpenRaw(b Binding, raw []byte) ([]byte, error) {
	if len(raw) < Overhead || len(raw) > s.maxPayload+Overhead {
		return nil, errInvalid
	}
	payload, _, err := s.openUntil(b, raw)
	return payload, err
}

// openUntil opens what is long enough to be a token.
func (s *Sealer) openUntil(b Binding, raw []byte) ([]byte, time.Time, error) {
	plain, ok := s.keys.Load().open(raw, b.associated())
	if !ok {
		return nil, time.Time{}, errInvalid
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))
	if !s.now().Before(until) {
		return nil, time.Time{}, ErrExpired
	}
	return plain[expiryBytes:], until, nil
}

// decode is strict, so that a token has one spelling: [Spent] knows tokens by
// their text.
func (s *Sealer) decode(token string) ([]byte, bool) {
	text, ok := strings.CutPrefix(token, prefix)
	// The decoder skips line ends even where it is strict.
	if !ok || len(token) < SealedLen(0) || len(token) > SealedLen(s.maxPayload) || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return raw, err == nil
}

// open tries the keys that have the token's id, which is one but for a chance in
// 2^32.
func (k *Keys) open(raw, associated []byte) ([]byte, bool) {
	id := [keyIDBytes]byte(raw)
	salt, sealed := raw[keyIDBytes:keyIDBytes+saltBytes], raw[keyIDBytes+saltBytes:]
	for i := range k.list {
		if k.list[i].id != id {
			continue
		}
		aead, nonce, err := k.list[i].cipher(salt)
		if err != nil {
			return nil, false
		}
		if plain, err := aead.Open(nil, nonce, sealed, associated); err == nil {
			return plain, true
		}
	}
	return nil, false
}

// cipher returns what one token is sealed with. Its errors cannot arise: all
// sizes are fixed.
func (k *key) cipher(salt []byte) (cipher.AEAD, []byte, error) {
	derived, err := hkdf.Expand(sha256.New, k.secret[:], cipherLabel+string(salt), aesKeyBytes+nonceBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("seal: derive: %w", err)
	}
	block, err := aes.NewCipher(derived[:aesKeyBytes])
	if err != nil {
		return nil, nil, fmt.Errorf("seal: cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fmt.Errorf("seal: mode: %w", err)
	}
	return aead, derived[aesKeyBytes:], nil
}

// associated is unambiguous: what varies in length is behind its length.
func (b *Binding) associated() []byte {
	out := make([]byte, 0, len(prefix)+2*8+len(b.Purpose)+len(b.Principal)+len(b.Digest))
	out = append(out, prefix...)
	for _, s := range [...]string{b.Purpose, b.Principal} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(s)))
		out = append(out, s...)
	}
	return append(out, b.Digest[:]...)
}

func (s *Sealer) read(dst []byte) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	_, err := io.ReadFull(s.rand, dst)
	return err
}

// digestLabel keeps digests apart from other hashes of the same bytes.
const digestLabel = "outrigger seal v1 digest"

// Digest returns the SHA-256 of its parts, each prefixed with its length, so that no
// other list of parts has the same digest. Callers pass the values that a token must be
// bound to: the method, the name, the arguments.
func Digest(parts ...[]byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(digestLabel))
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// Label returns the label of a sidecar operation in a digest, given the operation's
// name. The labels are those of the first version and never change, even if the
// operations are renamed: replicas of two versions must open each other's tokens.
func Label(operation string) []byte {
	switch operation {
	case "call_tool":
		return []byte("tools/call")
	case "list_tools":
		return []byte("tools/list")
	case "list_resources":
		return []byte("resources/list")
	case "list_resource_templates":
		return []byte("resources/templates/list")
	case "read_resource":
		return []byte("resources/read")
	case "list_prompts":
		return []byte("prompts/list")
	case "get_prompt":
		return []byte("prompts/get")
	}
	return []byte(operation)
}
