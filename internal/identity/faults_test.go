// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

const (
	resource = "http://127.0.0.1:9/mcp"
	origin   = "http://127.0.0.1:9"
	metadata = `resource_metadata="http://127.0.0.1:9/.well-known/oauth-protected-resource/mcp"`
	algs     = `algs="RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA"`
	// fileToken is a token of the callers file.
	fileToken = "file-0123456789abcdef"
)

// shown is what a request shows.
type shown struct {
	auth   []string
	proofs []string
	query  string
}

// answer is what the sidecar has to say.
type answer struct {
	code      string
	challenge string
}

// refused is a request that must not pass the door.
type refused struct {
	name string
	show func(method, path string) shown
	want answer
}

// scene is what the table needs.
type scene struct {
	issuer, other *oauthtest.Issuer
	client        *oauthtest.Client
	rsa, foreign  *oauthtest.Key
}

func newScene(t testing.TB) *scene {
	s := &scene{
		issuer: oauthtest.Start(t), other: oauthtest.Start(t), client: oauthtest.NewClient(t),
		rsa: oauthtest.NewKey(t, "rsa", "RS256"), foreign: oauthtest.NewKey(t, "first", "ES256"),
	}
	s.issuer.Publish(s.issuer.Key, s.rsa)
	return s
}

func plain() answer { return answer{"UNAUTHENTICATED", "Bearer " + metadata} }

func malformed() answer {
	return answer{"INVALID_AUTHORIZATION", `Bearer error="invalid_request", ` + metadata}
}

func invalid(text string) answer {
	return answer{"UNAUTHENTICATED", `Bearer error="invalid_token", error_description="` + text + `", ` + metadata}
}

// unbound is the answer to a binding that is wrong under Bearer: a client can change the scheme.
func unbound(text string) answer {
	a := invalid(text)
	a.challenge += ", DPoP " + algs
	return a
}

func dpop(code, text string) answer {
	return answer{"UNAUTHENTICATED", "Bearer " + metadata + `, DPoP error="` + code + `", error_description="` + text + `", ` + algs}
}

// always shows the same Authorization headers.
func always(auth ...string) func(string, string) shown {
	return func(string, string) shown { return shown{auth: auth} }
}

func bearer(token string) func(string, string) shown { return always("Bearer " + token) }

// faults are at least sixty ways to be refused. Descriptions are ours; the rest is RFC 6750,
// 9068, 9449, 8705 and 9728.
func (s *scene) faults() []refused {
	all := s.schemes()
	all = append(all, s.signatures()...)
	all = append(all, s.headers()...)
	all = append(all, s.claims()...)
	return append(all, s.bindings()...)
}

// schemes are credentials that are no token, or more than one.
func (s *scene) schemes() []refused {
	good := s.issuer.Token(resource, nil)
	inQuery := func(auth ...string) func(string, string) shown {
		return func(string, string) shown { return shown{auth: auth, query: "access_token=" + good} }
	}
	return []refused{
		{"nothing", always(), plain()},
		{"basic", always("Basic YTpi"), plain()},
		{"digest", always(`Digest username="a"`), plain()},
		{"query", inQuery(), plain()},
		{"query and header", inQuery("Bearer " + good), malformed()},
		{"empty", always(""), malformed()},
		{"scheme only", always("Bearer"), malformed()},
		{"no token", always("Bearer "), malformed()},
		{"no scheme", always(good), malformed()},
		{"two headers", always("Bearer "+good, "Bearer "+good), malformed()},
		{"two schemes", always("Bearer "+good, "DPoP "+good), malformed2()},
		{"a list", always("Bearer " + good + ", Bearer " + good), malformed()},
		{"a parameter", always(`Bearer token="` + good + `"`), malformed()},
		{"two tokens", always("Bearer " + good + " " + good), malformed()},
		{"above ASCII", always("Bearer " + good + "\u00e9"), malformed()},
		{"a quote", always(`Bearer ` + good + `"`), malformed()},
		{"padding first", always("Bearer =" + good), malformed()},
		{"30 KB", always("Bearer " + strings.Repeat("a", 30<<10)), malformed()},
	}
}

// malformed2 is malformed: the first of two schemes does not matter.
func malformed2() answer { return malformed() }

// signatures are tokens that nothing of the issuer has signed.
func (s *scene) signatures() []refused {
	i := s.issuer
	claims := i.Claims(resource)
	good := i.Token(resource, nil)
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	header := func(alg, kid string) map[string]any { return map[string]any{"alg": alg, "kid": kid, "typ": "at+jwt"} }
	changed := i.Claims(resource)
	changed["sub"] = "root"
	text, _ := json.Marshal(changed)
	badAlg, wrong := invalid("the signature algorithm of the token is not accepted"), invalid("the signature of the token is wrong")
	noKey := invalid("the key of the token is unknown")
	return []refused{
		{"none", bearer(i.Key.As("first", "none").Sign(header("none", "first"), claims)), badAlg},
		{"None", bearer(i.Key.As("first", "none").Sign(header("None", "first"), claims)), badAlg},
		{"no alg", bearer(i.Key.Sign(map[string]any{"kid": "first"}, claims)), badAlg},
		{"HMAC with the public key", bearer(oauthtest.Secret("rsa", s.rsa.PublicJSON()).Sign(header("HS256", "rsa"), claims)), badAlg},
		{"HMAC that says RS256", bearer(oauthtest.Secret("rsa", s.rsa.PublicJSON()).Sign(header("RS256", "rsa"), claims)), wrong},
		{"ES256K", bearer(i.Key.Sign(header("ES256K", "first"), claims)), badAlg},
		{"another key of the same kid", bearer(s.foreign.Sign(i.Header(), claims)), wrong},
		{"kid of another key", bearer(i.Key.Sign(header("RS256", "rsa"), claims)), wrong},
		{"alg of another key", bearer(s.rsa.Sign(header("RS256", "first"), claims)), noKey},
		{"PS256 with a key for RS256", bearer(s.rsa.As("rsa", "PS256").Sign(header("PS256", "rsa"), claims)), noKey},
		{"unknown kid", bearer(i.Key.Sign(header("ES256", "unknown"), claims)), noKey},
		{"unknown key without kid", bearer(s.foreign.Sign(map[string]any{"alg": "ES256"}, claims)), wrong},
		{"key of another issuer", bearer(s.other.Key.Sign(i.Header(), claims)), wrong},
		{"no signature", bearer(head + "." + body + "."), wrong},
		{"half a signature", bearer(good[:len(good)-8]), wrong},
		{"changed claims", bearer(head + "." + base64.RawURLEncoding.EncodeToString(text) + "." + signature), wrong},
		{"signature of zeros", bearer(head + "." + body + "." + strings.Repeat("A", len(signature))), wrong},
	}
}

// headers are tokens whose header or form is not what it has to be.
func (s *scene) headers() []refused {
	i := s.issuer
	with := func(change map[string]any) func(string, string) shown {
		header := i.Header()
		maps.Copy(header, change)
		return bearer(i.Key.Sign(header, i.Claims(resource)))
	}
	claims, _ := json.Marshal(i.Claims(resource))
	badType, malformedHeader := invalid("the token is of a type that is not accepted"), invalid("the header of the token is malformed")
	crit := invalid("the token has a critical header that is not supported")
	unknown := invalid("the token is unknown, or of an unknown issuer")
	return []refused{
		{"unknown crit", with(map[string]any{"crit": []string{"x"}, "x": 1}), crit},
		{"empty crit", with(map[string]any{"crit": []string{}}), crit},
		{"b64", with(map[string]any{"b64": false}), invalid("the token has an unencoded payload")},
		{"an id token's type", with(map[string]any{"typ": "id+jwt"}), badType},
		{"a logout token", with(map[string]any{"typ": "logout+jwt"}), badType},
		{"a proof as a token", with(map[string]any{"typ": "dpop+jwt"}), badType},
		{"an id-jag, which is a grant", with(map[string]any{"typ": "oauth-id-jag+jwt"}), badType},
		{"typ is a number", with(map[string]any{"typ": 1}), malformedHeader},
		{"kid is an object", with(map[string]any{"kid": map[string]any{}}), malformedHeader},
		{"duplicate alg", bearer(i.Key.SignText([]byte(`{"alg":"none","alg":"ES256","kid":"first"}`), claims)), malformedHeader},
		{"alg in capitals", bearer(i.Key.SignText([]byte(`{"ALG":"ES256","kid":"first"}`), claims)), invalid("the signature algorithm of the token is not accepted")},
		{"jku", bearer(s.foreign.Sign(map[string]any{"alg": "ES256", "kid": "first", "jku": s.other.JWKS()}, i.Claims(resource))), invalid("the signature of the token is wrong")},
		{"jwk", bearer(s.foreign.Sign(map[string]any{"alg": "ES256", "kid": "own", "jwk": s.foreign.As("own", "ES256").JWK()}, i.Claims(resource))), invalid("the key of the token is unknown")},
		{"x5u", bearer(s.foreign.Sign(map[string]any{"alg": "ES256", "kid": "own", "x5u": s.other.JWKS()}, i.Claims(resource))), invalid("the key of the token is unknown")},
		{"encrypted", bearer(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "..AAAA.AAAA.AAAA"), invalid("the token is encrypted")},
		{"opaque", bearer("opaque-" + rand.Text()), unknown},
		{"short", bearer("abc"), unknown},
		{"two parts", bearer(strings.TrimSuffix(i.Token(resource, nil), ".")[:40]), unknown},
		{"not base64", bearer("a.b.c"), unknown},
		{"claims are an array", bearer(i.Key.SignText([]byte(`{"alg":"ES256","kid":"first"}`), []byte(`[]`))), invalid("the claims of the token are malformed")},
		{"duplicate iss", bearer(i.Key.SignText([]byte(`{"alg":"ES256","kid":"first"}`), []byte(`{"iss":"a","iss":"b"}`))), invalid("the claims of the token are malformed")},
		{"deep claims", bearer(i.Key.SignText([]byte(`{"alg":"ES256"}`), []byte(`{"a":`+strings.Repeat("[", 50)+strings.Repeat("]", 50)+`}`))), invalid("the claims of the token are malformed")},
	}
}

// claims are tokens that say too little, or the wrong thing.
func (s *scene) claims() []refused {
	now := time.Now().Unix()
	with := func(change map[string]any) func(string, string) shown {
		return bearer(s.issuer.Token(resource, func(claims map[string]any) {
			for name, value := range change {
				if claims[name] = value; value == nil {
					delete(claims, name)
				}
			}
		}))
	}
	set := func(name string, value any) func(string, string) shown { return with(map[string]any{name: value}) }
	audience := invalid("the token is for another resource")
	unknown := invalid("the token is unknown, or of an unknown issuer")
	noSubject, noExpiry := invalid("the token has no subject"), invalid("the token has no expiry")
	expired, early := invalid("the token has expired"), invalid("the token is not valid yet")
	badExp := invalid("the token has a malformed exp")
	return []refused{
		{"iss with a slash", set("iss", s.issuer.URL+"/"), invalid("the issuer of the token differs from that of its metadata")},
		{"iss in capitals", set("iss", strings.ToUpper(s.issuer.URL)), unknown},
		{"iss of another", set("iss", "https://example.com"), unknown},
		{"iss of another that is configured", bearer(s.issuer.Key.Sign(s.issuer.Header(), s.other.Claims(resource))), invalid("the signature of the token is wrong")},
		{"no iss", set("iss", nil), unknown},
		{"iss is an array", set("iss", []string{s.issuer.URL}), unknown},
		{"no sub", set("sub", nil), noSubject},
		{"empty sub", set("sub", ""), noSubject},
		{"sub is a number", set("sub", 7), noSubject},
		{"long sub", set("sub", strings.Repeat("a", 1025)), invalid("the subject of the token is too long")},
		{"no aud", set("aud", nil), audience},
		{"aud of another", set("aud", "http://127.0.0.1:9/other"), audience},
		{"aud of the origin", set("aud", origin), audience},
		{"aud with two slashes", set("aud", resource+"//"), audience},
		{"aud in capitals", set("aud", "HTTP://127.0.0.1:9/MCP"), audience},
		{"aud array without us", set("aud", []string{"a", "b"}), audience},
		{"aud is an object", set("aud", map[string]any{resource: true}), invalid("the token has a malformed audience")},
		{"aud of numbers", set("aud", []any{resource, 7}), invalid("the token has a malformed audience")},
		{"aud that another issuer may use", set("aud", "api://other"), audience},
		{"no exp", set("exp", nil), noExpiry},
		{"exp is text", set("exp", "2099"), badExp},
		{"exp is zero", set("exp", 0), badExp},
		{"exp is negative", set("exp", -1), badExp},
		{"exp is huge", set("exp", math.MaxFloat64), badExp},
		{"expired", set("exp", now-3600), expired},
		{"expired past the leeway", set("exp", now-61), expired},
		{"nbf", set("nbf", now+3600), early},
		{"nbf past the leeway", set("nbf", now+660), early},
		{"iat in the future", set("iat", now+3600), early},
		{"nbf is text", set("nbf", "soon"), invalid("the token has a malformed nbf")},
		{"scope is a number", set("scope", 7), invalid("the token has malformed scopes or roles")},
		{"scp of objects", set("scp", []any{map[string]any{}}), invalid("the token has malformed scopes or roles")},
		{"cnf is text", set("cnf", "x"), invalidBinding("the token is bound in a way that is not supported")},
		{"cnf of a kind that is unknown", set("cnf", map[string]any{"kid": "x"}), invalidBinding("the token is bound in a way that is not supported")},
		{"bound to a certificate", set("cnf", map[string]any{"x5t#S256": "abc"}), unbound("the token is bound to a client certificate, and the connection has none")},
	}
}

func invalidBinding(text string) answer { return unbound(text) }

// bindings are DPoP tokens and proofs.
func (s *scene) bindings() []refused {
	bound := s.issuer.Token(resource, func(c map[string]any) { c["cnf"] = s.client.Confirmation() })
	free := s.issuer.Token(resource, nil)
	proof := func(text string, change func(header, claims map[string]any)) refused {
		return refused{"proof: " + text, func(method, path string) shown {
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{s.client.Proof(method, origin+path, bound, change)}}
		}, dpop("invalid_dpop_proof", text)}
	}
	with := func(text, name string, value any) refused {
		return proof(text, func(_, claims map[string]any) { claims[name] = value })
	}
	foreign := &oauthtest.Client{Key: s.foreign}
	now := time.Now().Unix()
	named := func(name string, r refused) refused {
		r.name = name
		return r
	}
	replayed := map[string]string{}
	return []refused{
		{"bound under Bearer", bearer(bound), unbound("the token is bound to a key: use the scheme DPoP with a proof")},
		{"free under DPoP", func(method, path string) shown {
			return shown{auth: []string{"DPoP " + free}, proofs: []string{s.client.Proof(method, origin+path, free, nil)}}
		}, dpop("invalid_token", "the token is not bound to a key")},
		{"token of the file under DPoP", func(method, path string) shown {
			return shown{auth: []string{"DPoP " + fileToken}, proofs: []string{s.client.Proof(method, origin+path, fileToken, nil)}}
		}, dpop("invalid_token", "the token is unknown, or of an unknown issuer")},
		{"no proof", always("DPoP " + bound), dpop("invalid_dpop_proof", "send one DPoP header with a proof")},
		{"two proofs", func(method, path string) shown {
			one := func() string { return s.client.Proof(method, origin+path, bound, nil) }
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{one(), one()}}
		}, dpop("invalid_dpop_proof", "send one DPoP header with a proof")},
		{"proof of another key", func(method, path string) shown {
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{foreign.Proof(method, origin+path, bound, nil)}}
		}, dpop("invalid_dpop_proof", "the proof has another key than the token")},
		{"a replayed proof", func(method, path string) shown {
			key := method + path
			if replayed[key] == "" {
				replayed[key] = s.client.Proof(method, origin+path, bound, nil)
			}
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{replayed[key]}}
		}, dpop("invalid_dpop_proof", "the proof was used before")},
		with("the proof is for another method", "htm", "PATCH"),
		with("the proof is for another URL", "htu", origin+"/another"),
		named("htu of another origin", with("the proof is for another URL", "htu", "https://example.com/mcp")),
		named("htu is a number", with("the proof is for another URL", "htu", 7)),
		with("the proof is for another token", "ath", "AAAA"),
		named("no ath", with("the proof is for another token", "ath", nil)),
		named("old", with("the proof is too old, or from the future", "iat", now-320)),
		named("future", with("the proof is too old, or from the future", "iat", now+900)),
		named("no htm", with("the proof is for another method", "htm", nil)),
		named("no htu", with("the proof is for another URL", "htu", nil)),
		named("htm in lower case", with("the proof is for another method", "htm", "post")),
		named("alg HS256", proof("the proof is malformed", func(h, _ map[string]any) { h["alg"] = "HS256" })),
		{"changed proof", func(method, path string) shown {
			head, rest, _ := strings.Cut(s.client.Proof(method, origin+path, bound, nil), ".")
			body, _, _ := strings.Cut(rest, ".")
			_, signature, _ := strings.Cut(s.client.Proof(method, origin+path, bound, nil)[len(head)+1:], ".")
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{head + "." + body + "." + signature}}
		}, dpop("invalid_dpop_proof", "the signature of the proof is wrong")},
		named("private jwk", proof("the signature of the proof is wrong", func(h, _ map[string]any) {
			jwk := map[string]any{}
			_ = json.Unmarshal(s.client.Key.PublicJSON(), &jwk)
			jwk["d"] = "AAAA"
			h["jwk"] = jwk
		})),
		named("no iat", with("the proof is malformed", "iat", nil)),
		named("no jti", with("the proof is malformed", "jti", "")),
		named("long jti", with("the proof is malformed", "jti", strings.Repeat("a", 300))),
		named("typ", proof("the proof is malformed", func(h, _ map[string]any) { h["typ"] = "jwt" })),
		named("alg none", proof("the proof is malformed", func(h, _ map[string]any) { h["alg"] = "none" })),
		named("no jwk", proof("the signature of the proof is wrong", func(h, _ map[string]any) { delete(h, "jwk") })),
		named("jwk of another", proof("the signature of the proof is wrong", func(h, _ map[string]any) { h["jwk"] = s.foreign.JWK() })),
		named("symmetric jwk", proof("the signature of the proof is wrong", func(h, _ map[string]any) {
			h["jwk"] = map[string]any{"kty": "oct", "k": "AAAA"}
		})),
		{"proof is no JWT", func(string, string) shown {
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{"x"}}
		}, dpop("invalid_dpop_proof", "the proof is malformed")},
		{"large proof", func(string, string) shown {
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{strings.Repeat("a", 9000)}}
		}, dpop("invalid_dpop_proof", "the proof is malformed")},
	}
}
