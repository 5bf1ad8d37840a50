// SPDX-License-Identifier: Apache-2.0

package behalf_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
)

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", der)
}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func jwks(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signedBy are the default settings with a file of keys.
func signedBy(path string) *configv1.BackendIdentity {
	i := config.Defaults(config.Serve).GetBackend().GetIdentity()
	i.Signed.KeyFile = path
	return i
}

func newSigner(t testing.TB, text []byte, change func(*configv1.SignedIdentity)) (*behalf.Signer, string) {
	t.Helper()
	i := signedBy(write(t, "keys", text))
	i.Signed.Issuer, i.Signed.Audience = "https://sidecar.example.com", "shop"
	if change != nil {
		change(i.GetSigned())
	}
	s, err := behalf.NewSigner(i)
	if err != nil {
		t.Fatal(err)
	}
	return s, i.GetSigned().GetKeyFile()
}

// published reads the keys as a backend does.
func published(t testing.TB, s *behalf.Signer) jose.JSONWebKeySet {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/jwks", nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || w.Header().Get("Content-Type") != "application/jwk-set+json" {
		t.Fatalf("%v: %v %s", err, w.Header(), w.Body)
	}
	for _, k := range set.Keys {
		if !k.IsPublic() || !k.Valid() || k.KeyID == "" || k.Algorithm == "" || k.Use != "sig" {
			t.Errorf("published: %+v", k)
		}
	}
	return set
}

// verified returns the claims and the key id of a token whose signature is right.
func verified(t testing.TB, authorization string, set jose.JSONWebKeySet) (map[string]any, string) {
	t.Helper()
	raw, ok := strings.CutPrefix(authorization, "Bearer ")
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if !ok || err != nil {
		t.Fatalf("%q: %v", authorization, err)
	}
	claims := map[string]any{}
	if err := token.Claims(set, &claims); err != nil {
		t.Fatal(err)
	}
	return claims, token.Headers[0].KeyID
}

// TestKeyFiles: each form of key signs what its published half verifies.
func TestKeyFiles(t *testing.T) {
	t.Parallel()
	ec, ed, rs := ecKey(t, elliptic.P256()), edKey(t), rsaKey(t, 2048)
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	one, err := json.Marshal(jose.JSONWebKey{Key: ec, KeyID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text []byte
		alg  string
		ids  int
	}{
		"PKCS 8, EC":          {pkcs8(t, ec), "ES256", 1},
		"PKCS 8, Ed25519":     {pkcs8(t, ed), "EdDSA", 1},
		"PKCS 8, RSA":         {pkcs8(t, rs), "RS256", 1},
		"SEC 1":               {slices.Concat(pemOf("EC PARAMETERS", []byte{6, 0}), pemOf("EC PRIVATE KEY", sec1)), "ES256", 1},
		"PKCS 1":              {pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rs)), "RS256", 1},
		"one JWK":             {one, "ES256", 1},
		"a JWK set":           {jwks(t, jose.JSONWebKey{Key: ed, KeyID: "new"}, jose.JSONWebKey{Key: ec, KeyID: "old"}), "EdDSA", 2},
		"one that is retired": {slices.Concat(pkcs8(t, ed), pemOf("PUBLIC KEY", public)), "EdDSA", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newSigner(t, tt.text, nil)
			set := published(t, s)
			if len(set.Keys) != tt.ids || len(s.KeyIDs()) != tt.ids || set.Keys[0].Algorithm != tt.alg {
				t.Fatalf("%v, %+v", s.KeyIDs(), set)
			}
			got, failed := s.Authorization(identity.NewContext(t.Context(), oauthCaller("alice", "")))
			if failed != nil {
				t.Fatal(failed)
			}
			if _, id := verified(t, got, set); id != s.KeyIDs()[0] {
				t.Errorf("signed by %s of %v", id, s.KeyIDs())
			}
		})
	}
}

func TestKeyFileFaults(t *testing.T) {
	t.Parallel()
	ec, ed := ecKey(t, elliptic.P256()), edKey(t)
	weak, err := x509.MarshalPKCS8PrivateKey(rsaKey(t, 1024))
	if err != nil {
		t.Fatal(err)
	}
	var many []jose.JSONWebKey
	for range 17 {
		many = append(many, jose.JSONWebKey{Key: edKey(t)})
	}
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":               {nil, "there is no key"},
		"words":                 {[]byte("hunter2-hunter2"), "neither a JWK set nor PEM"},
		"words behind a key":    {append(pkcs8(t, ed), "hunter2-hunter2"...), "neither a JWK set nor PEM"},
		"JSON that is broken":   {[]byte("{hunter2"), "not JSON"},
		"an empty set":          {[]byte(`{"keys":[]}`), "there is no key"},
		"a public key first":    {jwks(t, jose.JSONWebKey{Key: ec.Public()}), "must be a private key"},
		"a shared secret":       {jwks(t, jose.JSONWebKey{Key: []byte("hunter2-hunter2-hunter2-hunter2-")}), "must be an EC key"},
		"another curve":         {pkcs8(t, ecKey(t, elliptic.P384())), "P-256"},
		"a short RSA key":       {pemOf("PRIVATE KEY", weak), "2048 to 8192 bits"},
		"another algorithm":     {jwks(t, jose.JSONWebKey{Key: ec, Algorithm: "HS256"}), "alg must be ES256"},
		"for encryption":        {jwks(t, jose.JSONWebKey{Key: ec, Use: "enc"}), "use must be sig"},
		"twice the same id":     {jwks(t, jose.JSONWebKey{Key: ec, KeyID: "a"}, jose.JSONWebKey{Key: ed, KeyID: "a"}), "earlier key"},
		"twice the same key":    {append(pkcs8(t, ed), pkcs8(t, ed)...), "earlier key"},
		"too many":              {jwks(t, many...), "more than 16"},
		"an encrypted key":      {pemOf("ENCRYPTED PRIVATE KEY", []byte("hunter2")), "not encrypted"},
		"a broken PEM block":    {pemOf("PRIVATE KEY", []byte("hunter2")), "cannot be read"},
		"a certificate":         {pemOf("CERTIFICATE", []byte("hunter2")), "must be a PRIVATE KEY"},
		"a huge file":           {bytes.Repeat([]byte(" "), 1<<20+1), "more than 1048576 bytes"},
		"a JWK without a value": {[]byte(`{"keys":[{"kty":"EC","crv":"P-256","d":"hunter2"}]}`), "not a JWK"},
		"a long id":             {jwks(t, jose.JSONWebKey{Key: ec, KeyID: strings.Repeat("a", 300)}), "256 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := behalf.NewSigner(signedBy(write(t, "keys", tt.text)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it shows the file: %v", err)
			}
		})
	}
	if _, err := behalf.NewSigner(signedBy("/nowhere")); err == nil {
		t.Error("no file")
	}
}

// TestClaims: equal names of two sources are two subjects for the backend.
func TestClaims(t *testing.T) {
	t.Parallel()
	s, _ := newSigner(t, pkcs8(t, edKey(t)), nil)
	raw, _ := newSigner(t, pkcs8(t, edKey(t)), func(o *configv1.SignedIdentity) { o.Subject = new("subject") })
	other := identity.NewIdentityOf(identity.Grant{Name: "https://b.example.com#alice"},
		identity.Facts{Source: identity.SourceOAuth, Issuer: "https://b.example.com", Subject: "alice"})
	mapped := identity.NewIdentityOf(identity.Grant{Name: "alice"}, identity.Facts{Source: identity.SourceTokens, Issuer: issuer, Subject: "alice"})
	certificate := identity.NewIdentityOf(identity.Grant{Name: "spiffe://example.org/planner"}, identity.Facts{Source: identity.SourceCertificate})
	for name, tt := range map[string]struct {
		signer *behalf.Signer
		who    *identity.Identity
		sub    string
		id     map[string]any
		act    any
	}{
		"an entry of the callers file": {s, identity.NewIdentity(identity.Grant{Name: "alice"}), "alice", map[string]any{"format": "opaque", "id": "caller:alice"}, nil},
		"OAuth": {s, oauthCaller("alice", "planner"), issuer + "#alice", map[string]any{"format": "iss_sub", "iss": issuer, "sub": "alice"},
			map[string]any{"sub": "planner", "iss": issuer}},
		"another issuer": {s, other, "https://b.example.com#alice", map[string]any{"format": "iss_sub", "iss": "https://b.example.com", "sub": "alice"}, nil},
		"the issuer's subject": {raw, oauthCaller("alice", "planner"), "alice", map[string]any{"format": "iss_sub", "iss": issuer, "sub": "alice"},
			map[string]any{"sub": "planner", "iss": issuer}},
		"joined by the configuration": {s, mapped, "alice", map[string]any{"format": "iss_sub", "iss": issuer, "sub": "alice"}, nil},
		"a certificate":               {s, certificate, "spiffe://example.org/planner", map[string]any{"format": "uri", "uri": "spiffe://example.org/planner"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := time.Now().Unix()
			got, failed := tt.signer.Authorization(identity.NewContext(t.Context(), tt.who))
			if failed != nil {
				t.Fatal(failed)
			}
			claims, _ := verified(t, got, published(t, tt.signer))
			iat, _ := claims["iat"].(float64)
			exp, _ := claims["exp"].(float64)
			if jti, _ := claims["jti"].(string); int64(iat) < before || exp-iat != 60 || len(jti) < 20 {
				t.Errorf("%v", claims)
			}
			for _, name := range []string{"iat", "exp", "jti"} {
				delete(claims, name)
			}
			want := map[string]any{"iss": "https://sidecar.example.com", "aud": "shop", "sub": tt.sub, "sub_id": tt.id}
			if tt.act != nil {
				want["act"] = tt.act
			}
			if diff := cmp.Diff(want, claims); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignMissing(t *testing.T) {
	t.Parallel()
	s, path := newSigner(t, pkcs8(t, edKey(t)), nil)
	if _, err := s.Authorization(t.Context()); err == nil || err.Code != errmap.PermissionDenied || s.Stats().Missing != 1 {
		t.Errorf("%v", err)
	}
	i := signedBy(path)
	i.OnMissing = new("none")
	s, err := behalf.NewSigner(i)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Authorization(t.Context()); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSignedTwice: a token is used for half of its lifetime.
func TestSignedTwice(t *testing.T) {
	t.Parallel()
	s, _ := newSigner(t, pkcs8(t, edKey(t)), func(o *configv1.SignedIdentity) { o.Ttl = durationpb.New(time.Hour) }) // MaxTTL
	synctest.Test(t, func(t *testing.T) {
		ctx := identity.NewContext(t.Context(), oauthCaller("alice", ""))
		var tokens []string
		for _, wait := range []time.Duration{0, behalf.MaxTTL/2 - 1, 1} {
			time.Sleep(wait)
			got, err := s.Authorization(ctx)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, got)
		}
		if tokens[0] != tokens[1] || tokens[1] == tokens[2] {
			t.Error("a token is used for another time than half of its lifetime")
		}
		if s := s.Stats(); s.Signed != 2 || s.CacheHits != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRotation: the new key is published beside the old one before it signs, a token of
// the old one verifies all the while, and a file that cannot be used changes nothing.
func TestRotation(t *testing.T) {
	t.Parallel()
	old, next := pkcs8(t, ecKey(t, elliptic.P256())), pkcs8(t, edKey(t))
	s, path := newSigner(t, old, nil)
	ctx := identity.NewContext(t.Context(), oauthCaller("alice", ""))
	token := func() string {
		t.Helper()
		got, err := s.Authorization(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := token()
	for _, step := range []struct {
		text    []byte
		changed bool
		fails   bool
		keys    int
	}{
		{old, false, false, 1}, {slices.Concat(old, next), true, false, 2}, {slices.Concat(next, old), true, false, 2}, {[]byte("x"), false, true, 2},
	} {
		write(t, path, step.text)
		changed, err := s.Reload()
		if changed != step.changed || (err != nil) != step.fails {
			t.Errorf("changed %v, %v", changed, err)
		}
		set := published(t, s)
		if len(set.Keys) != step.keys {
			t.Errorf("%d keys, want %d", len(set.Keys), step.keys)
		}
		verified(t, first, set)
		verified(t, token(), set)
	}
	if _, id := verified(t, token(), published(t, s)); id != s.KeyIDs()[0] {
		t.Error("the old key signs")
	}
}

// TestReplicas with the same file give its keys the same ids.
func TestReplicas(t *testing.T) {
	t.Parallel()
	text := slices.Concat(pkcs8(t, edKey(t)), pkcs8(t, ecKey(t, elliptic.P256())))
	one, _ := newSigner(t, text, nil)
	two, _ := newSigner(t, text, nil)
	if diff := cmp.Diff(one.KeyIDs(), two.KeyIDs()); diff != "" {
		t.Error(diff)
	}
	sum, err := (&jose.JSONWebKey{Key: published(t, one).Keys[0].Key}).Thumbprint(crypto.SHA256)
	if err != nil || len(sum) != 32 {
		t.Fatal(err)
	}
}

// TestSignedByMany at once, with a cache that is too small for them.
func TestSignedByMany(t *testing.T) {
	t.Parallel()
	s, _ := newSigner(t, pkcs8(t, ecKey(t, elliptic.P256())), func(o *configv1.SignedIdentity) { o.MaxTokens = new(int32(4)) })
	set := published(t, s)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			name := string(rune('a' + i))
			for range 8 {
				got, err := s.Authorization(identity.NewContext(t.Context(), oauthCaller(name, "")))
				if err != nil {
					t.Error(err)
					return
				}
				if claims, _ := verified(t, got, set); claims["sub"] != issuer+"#"+name {
					t.Errorf("%s got the token of %v", name, claims["sub"])
				}
			}
		})
	}
	all.Wait()
	if got := s.Stats().Cached; got != 4 {
		t.Errorf("%d tokens are kept", got)
	}
}

// BenchmarkSigned is what a call costs: with a token that is kept, and with a signature
// for each call.
func BenchmarkSigned(b *testing.B) {
	for name, key := range map[string]any{"ES256": ecKey(b, elliptic.P256()), "EdDSA": edKey(b), "RS256": rsaKey(b, 2048)} {
		for _, every := range []bool{false, true} {
			kind := "/kept"
			if every {
				kind = "/each"
			}
			b.Run(name+kind, func(b *testing.B) {
				s, _ := newSigner(b, pkcs8(b, key), func(o *configv1.SignedIdentity) {
					if every {
						o.Ttl = durationpb.New(1) // the time has passed when it is made
					}
				})
				ctx := identity.NewContext(b.Context(), oauthCaller("alice", "planner"))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Authorization(ctx); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
