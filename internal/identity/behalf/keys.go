// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Bounds of the keys.
const (
	maxKeys    = 16
	minRSABits = 2048
	maxRSABits = 8192
	maxKeyID   = 256
)

// keySet is the keys of one state of a key file: the first signs, all are published.
type keySet struct {
	signer jose.Signer
	// published is the JWK set of the public keys, as JSON.
	published []byte
	ids       []string
}

// readKeys reads a key file: a JWK set, one JWK, or PEM blocks.
func readKeys(path string) (*keySet, error) {
	text, err := keys.ReadFile(path, maxFileBytes)
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
func parseKeys(text []byte) (*keySet, error) {
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
func newKeys(list []jose.JSONWebKey) (*keySet, error) {
	out, set := &keySet{}, jose.JSONWebKeySet{}
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

// complete sets the algorithm and the id of a key. Without its own id, a key has
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

// maxTTL is the maximum lifetime of a signed token.
const maxTTL = 5 * time.Minute

// Signer signs short JWTs that name the caller. Make one with [NewSigner].
type Signer struct {
	config *configv1.SignedIdentity
	ttl    time.Duration
	// onMissing is for callers without an identity.
	onMissing onMissing
	state     atomic.Pointer[signing]
	signed    atomic.Uint64
	hits      atomic.Uint64
	refused   atomic.Uint64
}

// signing is the keys in use with what they have signed.
type signing struct {
	keys   *keySet
	tokens *identity.Cache[signedFor, string]
}

// signedFor is what a token says about its caller. Several identities can have one
// principal, where the configuration joins them.
type signedFor struct{ principal, name, issuer, subject, clientID string }

// NewSigner reads the keys.
func NewSigner(i *configv1.BackendIdentity) (*Signer, error) {
	c := i.GetSigned()
	s := &Signer{config: c, ttl: min(c.GetTtl().AsDuration(), maxTTL), onMissing: onMissing(i.GetOnMissing())}
	_, err := s.Reload()
	return s, err
}

// Files returns the files to watch.
func (s *Signer) Files() []string { return []string{s.config.GetKeyFile()} }

// Reload reads the keys again and reports whether they changed. After an error the last
// good ones stay in use.
func (s *Signer) Reload() (changed bool, err error) {
	now, err := readKeys(s.config.GetKeyFile())
	if err != nil {
		return false, err
	}
	old := s.state.Swap(&signing{keys: now, tokens: identity.NewCache[signedFor, string](int(s.config.GetMaxTokens()))})
	return old != nil && !bytes.Equal(old.keys.published, now.published), nil
}

// KeyIDs returns the ids of the keys. The first one signs.
func (s *Signer) KeyIDs() []string { return s.state.Load().keys.ids }

// Authorization returns the Authorization header with a token that names the caller in
// ctx. A token is used for half of its lifetime, so that a call seldom waits for a
// signature, and the backend has the other half to look at it.
func (s *Signer) Authorization(ctx context.Context) (string, *errmap.Error) {
	who := identity.FromContext(ctx)
	if who == nil {
		return s.onMissing.missing(func() { s.refused.Add(1) }, "the backend is called in the name of a caller, and this one has no identity")
	}
	state, now := s.state.Load(), time.Now()
	f := who.Facts()
	key := signedFor{principal: who.Principal(), name: who.Name(), issuer: f.Issuer, subject: f.Subject, clientID: f.ClientID}
	if value, ok := state.tokens.Get(key, now); ok {
		s.hits.Add(1)
		return value, nil
	}
	value, err := s.sign(state.keys, who, now)
	if err != nil {
		return "", errmap.Wrap(errmap.InternalError, err)
	}
	const used = 2
	state.tokens.Put(key, value, now.Add(s.ttl/used), now)
	return value, nil
}

// claims are the claims of a token.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
	// SubjectID says whose name the subject is (RFC 9493).
	SubjectID subjectID `json:"sub_id"`
	// Actor is the OAuth client that acts for the subject (RFC 8693, section 4.1).
	Actor *actor `json:"act,omitempty"`
}

type actor struct {
	Subject string `json:"sub"`
	Issuer  string `json:"iss,omitempty"`
}

type subjectID struct {
	Format  string `json:"format"`
	Issuer  string `json:"iss,omitempty"`
	Subject string `json:"sub,omitempty"`
	URI     string `json:"uri,omitempty"`
	ID      string `json:"id,omitempty"`
}

// sign makes a token.
func (s *Signer) sign(k *keySet, who *identity.Identity, now time.Time) (string, error) {
	f := who.Facts()
	c := claims{
		Issuer: s.config.GetIssuer(), Subject: who.Name(), Audience: s.config.GetAudience(),
		IssuedAt: now.Unix(), Expires: now.Add(s.ttl).Unix(), ID: rand.Text(), SubjectID: subjectIDOf(who),
	}
	if s.config.GetSubject() == "subject" && f.Issuer != "" {
		c.Subject = f.Subject
	}
	if f.ClientID != "" {
		c.Actor = &actor{Subject: f.ClientID, Issuer: f.Issuer}
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	signature, err := k.signer.Sign(payload)
	if err != nil {
		return "", err
	}
	compact, err := signature.CompactSerialize()
	s.signed.Add(1)
	return "Bearer " + compact, err
}

// subjectIDOf identifies a caller unambiguously. An entry of the callers file has the
// caller's principal, which no other source can have.
func subjectIDOf(who *identity.Identity) subjectID {
	switch f := who.Facts(); {
	case f.Issuer != "":
		return subjectID{Format: "iss_sub", Issuer: f.Issuer, Subject: f.Subject}
	case f.Source == identity.SourceCertificate:
		return subjectID{Format: "uri", URI: f.Subject}
	}
	return subjectID{Format: "opaque", ID: who.Principal()}
}

// ServeHTTP serves the public keys as a JWK set.
func (s *Signer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(s.state.Load().keys.published) // the client has gone if this fails
}

// Stats returns the counts.
func (s *Signer) Stats() Stats {
	return Stats{
		Signed: s.signed.Load(), CacheHits: s.hits.Load(), Cached: s.state.Load().tokens.Len(), MaxCached: int(s.config.GetMaxTokens()),
		Missing: s.refused.Load(),
	}
}
