// SPDX-License-Identifier: Apache-2.0

// Package oauthtest has an OAuth authorization server on loopback whose keys rotate and that can
// be away, clients that bind tokens to a key, and tokens with any header and any claims. Tests
// alone import it.
package oauthtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the algorithms
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Key is a key that signs.
type Key struct {
	ID, Algorithm string

	private crypto.Signer
	secret  []byte // of HMAC
}

// NewKey makes a key for an algorithm.
func NewKey(tb testing.TB, id, algorithm string) *Key {
	tb.Helper()
	k := &Key{ID: id, Algorithm: algorithm}
	var err error
	switch algorithm {
	case "ES256":
		k.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		k.private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, k.private, err = ed25519.GenerateKey(rand.Reader)
	default:
		k.private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// Secret makes an HMAC key.
func Secret(id string, secret []byte) *Key { return &Key{ID: id, Algorithm: "HS256", secret: secret} }

// As is the same key under another name or for another algorithm.
func (k *Key) As(id, algorithm string) *Key {
	return &Key{ID: id, Algorithm: algorithm, private: k.private, secret: k.secret}
}

// JWK is the public key.
func (k *Key) JWK() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.ID, Algorithm: k.Algorithm, Use: "sig"}
}

// Thumbprint is that of RFC 7638.
func (k *Key) Thumbprint() string {
	jwk := k.JWK()
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		panic(err) //nolint:forbidigo // a key that was just made has one
	}
	return encode(sum)
}

// PublicJSON is the public key as JSON, which some confuse with a secret.
func (k *Key) PublicJSON() []byte { return must(json.Marshal(k.JWK())) }

// Sign returns a JWT with a header and claims as they are.
func (k *Key) Sign(header, claims map[string]any) string {
	return k.SignText(must(json.Marshal(header)), must(json.Marshal(claims)))
}

// SignText is Sign for JSON as text.
func (k *Key) SignText(header, claims []byte) string {
	input := encode(header) + "." + encode(claims)
	return input + "." + encode(k.signature([]byte(input)))
}

func (k *Key) signature(input []byte) []byte {
	if k.secret != nil {
		code := hmac.New(crypto.SHA256.New, k.secret)
		_, _ = code.Write(input)
		return code.Sum(nil)
	}
	if k.Algorithm == "none" {
		return nil
	}
	if k.Algorithm == "EdDSA" {
		return must(k.private.Sign(rand.Reader, input, crypto.Hash(0)))
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[k.Algorithm[2:]]
	h := hash.New()
	_, _ = h.Write(input)
	switch private := k.private.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, private, h.Sum(nil))
		size := (private.Curve.Params().BitSize + 7) / 8
		out := make([]byte, 2*size)
		must(0, err)
		r.FillBytes(out[:size])
		s.FillBytes(out[size:])
		return out
	case *rsa.PrivateKey:
		var opts crypto.SignerOpts = hash
		if strings.HasPrefix(k.Algorithm, "PS") {
			opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		return must(private.Sign(rand.Reader, h.Sum(nil), opts))
	}
	return nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// must is for what cannot fail with the keys and values of a test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err) //nolint:forbidigo // a test that is wrong
	}
	return v
}
