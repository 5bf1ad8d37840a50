// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// MaxTTL is the maximum lifetime of a signed token.
const MaxTTL = 5 * time.Minute

// SignOptions configure a [Signer].
type SignOptions struct {
	// KeyFile has the keys: a JWK set, or PEM.
	KeyFile string
	// Issuer and Audience are the claims iss and aud.
	Issuer, Audience string
	// TTL is the lifetime of a token, at most [MaxTTL]; MaxTokens bounds the cache. Values
	// that are not positive have the defaults of the configuration.
	TTL       time.Duration
	MaxTokens int
	// SubjectOfIssuer sets the claim sub to the issuer's own name for an OAuth caller,
	// instead of the caller's name, which is unique among all sources.
	SubjectOfIssuer bool
	// OnMissing is for callers without an identity.
	OnMissing OnMissing
}

// Signer signs short JWTs that name the caller. Make one with [NewSigner].
type Signer struct {
	opts    SignOptions
	state   atomic.Pointer[signing]
	signed  atomic.Uint64
	hits    atomic.Uint64
	refused atomic.Uint64
}

// signing is the keys in use with what they have signed.
type signing struct {
	keys   *keys
	tokens *cache[signedFor, string]
}

// signedFor is what a token says about its caller. Several identities can have one
// principal, where the configuration joins them.
type signedFor struct{ principal, name, issuer, subject, clientID string }

// NewSigner reads the keys.
func NewSigner(o SignOptions) (*Signer, error) {
	defaults.Fill(&o.TTL, defaults.SignedTTL)
	defaults.Fill(&o.MaxTokens, defaults.SignedMaxTokens)
	o.TTL = min(o.TTL, MaxTTL)
	s := &Signer{opts: o}
	_, err := s.Reload()
	return s, err
}

// Files returns the files to watch.
func (s *Signer) Files() []string { return []string{s.opts.KeyFile} }

// Reload reads the keys again and reports whether they changed. After an error the last
// good ones stay in use.
func (s *Signer) Reload() (changed bool, err error) {
	now, err := readKeys(s.opts.KeyFile)
	if err != nil {
		return false, err
	}
	old := s.state.Swap(&signing{keys: now, tokens: newCache[signedFor, string](s.opts.MaxTokens)})
	return old != nil && !bytes.Equal(old.keys.published, now.published), nil
}

// KeyIDs returns the ids of the keys. The first one signs.
func (s *Signer) KeyIDs() []string { return s.state.Load().keys.ids }

// Authorization returns the Authorization header with a token that names the caller in
// ctx. A token is used for half of its lifetime, so that a call seldom waits for a
// signature, and the backend has the other half to look at it.
func (s *Signer) Authorization(ctx context.Context) (string, *errmap.Error) {
	who := access.FromContext(ctx)
	if who == nil {
		return s.opts.OnMissing.missing(func() { s.refused.Add(1) }, "the backend is called in the name of a caller, and this one has no identity")
	}
	state, now := s.state.Load(), time.Now()
	f := who.Facts()
	key := signedFor{principal: who.Principal(), name: who.Name(), issuer: f.Issuer, subject: f.Subject, clientID: f.ClientID}
	if value, ok := state.tokens.get(key, now); ok {
		s.hits.Add(1)
		return value, nil
	}
	value, err := s.sign(state.keys, who, now)
	if err != nil {
		return "", errmap.Wrap(errmap.InternalError, err)
	}
	const used = 2
	state.tokens.put(key, value, now.Add(s.opts.TTL/used), now)
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
func (s *Signer) sign(k *keys, who *access.Identity, now time.Time) (string, error) {
	f := who.Facts()
	c := claims{
		Issuer: s.opts.Issuer, Subject: who.Name(), Audience: s.opts.Audience,
		IssuedAt: now.Unix(), Expires: now.Add(s.opts.TTL).Unix(), ID: rand.Text(), SubjectID: subjectIDOf(who),
	}
	if s.opts.SubjectOfIssuer && f.Issuer != "" {
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
func subjectIDOf(who *access.Identity) subjectID {
	switch f := who.Facts(); {
	case f.Issuer != "":
		return subjectID{Format: "iss_sub", Issuer: f.Issuer, Subject: f.Subject}
	case f.Source == access.SourceCertificate:
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
		Signed: s.signed.Load(), CacheHits: s.hits.Load(), Cached: s.state.Load().tokens.len(), MaxCached: s.opts.MaxTokens,
		Missing: s.refused.Load(),
	}
}
