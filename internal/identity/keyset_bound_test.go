// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An issuer has at most 64 keys; further ones are not used, and the first ones are.
func TestKeysOfAnIssuerAreBounded(t *testing.T) {
	t.Parallel()
	for _, published := range []int{maxKeys - 1, maxKeys, maxKeys + 6} {
		var doc jose.JSONWebKeySet
		for n := range published {
			private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			doc.Keys = append(doc.Keys, jose.JSONWebKey{Key: private.Public(), KeyID: strconv.Itoa(n), Algorithm: "ES256", Use: "sig"})
		}
		body, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		set, err := parseKeys(body, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if len(set.keys) != min(published, 64) {
			t.Errorf("%d keys of %d", len(set.keys), published)
		}
		for n := range published {
			if found := len(set.find(strconv.Itoa(n), "ES256")) > 0; found != (n < 64) {
				t.Errorf("key %d of %d: found %v", n, published, found)
			}
		}
	}
}
