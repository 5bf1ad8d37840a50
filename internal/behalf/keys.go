// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// Bounds of the keys.
const (
	maxKeys    = 16
	minRSABits = 2048
	maxRSABits = 8192
	maxKeyID   = 256
)

// keys are the keys of one state of a key file: the first signs, all are published.
type keys struct {
	signer jose.Signer
	// published is the JWK set of the public keys, as JSON.
	published []byte
	ids       []string
}

// readKeys reads a key file: a JWK set, one JWK, or PEM blocks.
func readKeys(path string) (*keys, error) {
	text, err := tlsfiles.Read(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	k, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

// parseKeys parses the text of a key file. Its errors do not show the text.
func parseKeys(text []byte) (*keys, error) {
	parse := parsePEM
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		parse = parseJWKs
	}
	list, err := parse(text)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, errors.New("there is no key")
	case len(list) > maxKeys:
		return nil, fmt.Errorf("there are more than %d keys", maxKeys)
	case list[0].IsPublic():
		return nil, errors.New("the first key signs, so it must be a private key")
	}
	return newKeys(list)
}

// newKeys completes and checks keys, and makes the signer.
func newKeys(list []jose.JSONWebKey) (*keys, error) {
	out, set := &keys{}, jose.JSONWebKeySet{}
	seen := map[string]bool{}
	for i := range list {
		key := &list[i]
		if err := complete(key); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if seen[key.KeyID] {
			return nil, fmt.Errorf("key %d: its id is that of an earlier key", i+1)
		}
		seen[key.KeyID] = true
		out.ids = append(out.ids, key.KeyID)
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public().Key, KeyID: key.KeyID, Algorithm: key.Algorithm, Use: "sig"})
	}
	var err error
	options := (&jose.SignerOptions{}).WithType("JWT")
	if out.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(list[0].Algorithm), Key: list[0]}, options); err != nil {
		return nil, errors.New("key 1: it cannot sign")
	}
	out.published, err = json.Marshal(set)
	return out, err
}

// complete sets the algorithm and the id of a key. Without an id of its own, a key has
// its thumbprint (RFC 7638), which is the same on every replica.
func complete(key *jose.JSONWebKey) error {
	algorithm, err := algorithmOf(key)
	if err != nil {
		return err
	}
	switch {
	case key.Algorithm != "" && key.Algorithm != string(algorithm):
		return fmt.Errorf("its alg must be %s", algorithm)
	case key.Use != "" && key.Use != "sig":
		return errors.New("its use must be sig")
	case !key.Valid():
		return errors.New("it is not valid")
	case len(key.KeyID) > maxKeyID:
		return fmt.Errorf("its id has more than %d bytes", maxKeyID)
	}
	key.Algorithm = string(algorithm)
	if key.KeyID == "" {
		sum, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			return errors.New("it has no thumbprint")
		}
		key.KeyID = base64.RawURLEncoding.EncodeToString(sum)
	}
	return nil
}

// algorithmOf returns the algorithm of a key: each type has one. A type that is not
// listed, such as a shared secret, signs nothing.
func algorithmOf(key *jose.JSONWebKey) (jose.SignatureAlgorithm, error) {
	public := key.Public()
	switch k := public.Key.(type) {
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return jose.ES256, nil
		}
		return "", errors.New("its curve must be P-256")
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return "", fmt.Errorf("an RSA key must have %d to %d bits", minRSABits, maxRSABits)
		}
		return jose.RS256, nil
	}
	return "", errors.New("it must be an EC key on P-256, an Ed25519 key or an RSA key")
}

// parseJWKs parses a JWK set or one JWK.
func parseJWKs(text []byte) ([]jose.JSONWebKey, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, errors.New("it is not JSON")
	}
	if raw.Keys == nil {
		raw.Keys = []json.RawMessage{text}
	}
	if len(raw.Keys) > maxKeys {
		return nil, fmt.Errorf("there are more than %d keys", maxKeys)
	}
	list := make([]jose.JSONWebKey, len(raw.Keys))
	for i := range list {
		if err := json.Unmarshal(raw.Keys[i], &list[i]); err != nil {
			return nil, fmt.Errorf("key %d: it is not a JWK", i+1) // the cause could show a part of it
		}
	}
	return list, nil
}

// parsePEM parses PEM blocks of private and public keys.
func parsePEM(text []byte) ([]jose.JSONWebKey, error) {
	var list []jose.JSONWebKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type == "EC PARAMETERS" { // which openssl writes before a key
			continue
		}
		key, err := parseBlock(block)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(list)+1, err)
		}
		if list = append(list, jose.JSONWebKey{Key: key}); len(list) > maxKeys {
			return nil, fmt.Errorf("there are more than %d keys", maxKeys)
		}
	}
	if len(bytes.TrimSpace(text)) > 0 {
		return nil, errors.New("it is neither a JWK set nor PEM")
	}
	return list, nil
}

func parseBlock(block *pem.Block) (any, error) {
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, errors.New("its PEM block must be a PRIVATE KEY or a PUBLIC KEY, not encrypted")
	}
	if err != nil {
		return nil, errors.New("its PEM block cannot be read")
	}
	return key, nil
}
