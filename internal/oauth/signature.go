// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"encoding/base64"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// algorithms are the accepted signature algorithms. A key decides what it can verify; the list
// decides what is tried at all. It never has none or HMAC in it.
type algorithms []jose.SignatureAlgorithm

func algorithmsOf(names []string) algorithms {
	out := make(algorithms, len(names))
	for i, name := range names {
		out[i] = jose.SignatureAlgorithm(name)
	}
	return out
}

func (a algorithms) accepts(alg string) bool { return slices.Contains(a, jose.SignatureAlgorithm(alg)) }

// verify returns the key that verifies a token's signature, nil if none does.
func (a algorithms) verify(raw string, keys []*key) *key {
	signed, err := jose.ParseSignedCompact(raw, a)
	if err != nil {
		return nil
	}
	for _, k := range keys {
		if _, err := signed.Verify(k.Key); err == nil {
			return k
		}
	}
	return nil
}
