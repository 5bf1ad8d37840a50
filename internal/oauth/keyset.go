// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxKeys bounds the keys of one issuer.
	maxKeys = 64
	// minRSABits and maxRSABits bound RSA keys: a shorter key is not safe, and a longer one
	// is slow.
	minRSABits, maxRSABits = 2048, 8192
)

// key is a public key of an issuer.
type key struct {
	jose.JSONWebKey

	print string // the thumbprint, by which a key is recognised in the next set
	// gone is set once the issuer does not publish the key any more.
	gone atomic.Bool
}

// keySet is the keys of an issuer at one time. Immutable.
type keySet struct {
	keys    []*key
	fetched time.Time
}

var errNoKeys = errors.New("the issuer publishes no key that can verify a signature")

// parseKeys reads a JWK set. It skips keys that it cannot use. Keys of the set before stay the
// same, so that what they have verified stays verified.
func parseKeys(body []byte, before *keySet, now time.Time) (*keySet, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, errors.New("the issuer's keys are no JWK set")
	}
	set := &keySet{fetched: now}
	for _, raw := range doc.Keys {
		k, ok := parseKey(raw)
		if !ok || len(set.keys) == maxKeys {
			continue
		}
		if old := before.same(k); old != nil {
			k = old
		}
		set.keys = append(set.keys, k)
	}
	if len(set.keys) == 0 {
		return nil, errNoKeys
	}
	return set, nil
}

// parseKey reads a public key for signatures.
func parseKey(raw []byte) (*key, bool) {
	k := &key{}
	if k.UnmarshalJSON(raw) != nil || !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return nil, false
	}
	if !isSafe(k.Key) {
		return nil, false
	}
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, false
	}
	k.print = encode(sum)
	return k, true
}

// isSafe bounds the size of a key, from both sides.
func isSafe(public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// same is the key of the set with the same name and content.
func (s *keySet) same(k *key) *key {
	if s == nil {
		return nil
	}
	for _, old := range s.keys {
		if old.print == k.print && old.KeyID == k.KeyID && old.Algorithm == k.Algorithm {
			return old
		}
	}
	return nil
}

// replacedBy marks the keys that are not in the next set.
func (s *keySet) replacedBy(next *keySet) {
	if s == nil {
		return
	}
	for _, k := range s.keys {
		if !slices.Contains(next.keys, k) {
			k.gone.Store(true)
		}
	}
}

// find returns the keys that may have signed a token: the one with its kid, or all that fit
// its algorithm if it names none.
func (s *keySet) find(kid, alg string) []*key {
	if s == nil {
		return nil
	}
	var found []*key
	for _, k := range s.keys {
		if (kid == "" || k.KeyID == kid) && fits(k.Key, alg) && (k.Algorithm == "" || k.Algorithm == alg) {
			found = append(found, k)
		}
	}
	return found
}

// fits reports whether a key is for an algorithm.
func fits(public any, alg string) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[alg] == k.Curve.Params().BitSize
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}
