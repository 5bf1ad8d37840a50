// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

const fuzzResource = "http://127.0.0.1:9/mcp"

// offline is a verifier whose issuer has one key and cannot be reached.
func offline(t testing.TB, o VerifierOptions) (*Verifier, *oauthtest.Key) {
	t.Helper()
	o.Resource, o.Issuers = fuzzResource, []Issuer{{URL: "http://127.0.0.1:1", JWKS: "http://127.0.0.1:1/jwks"}}
	v, err := NewVerifier(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.stop)
	k := oauthtest.NewKey(t, "first", "ES256")
	set, err := parseKeys([]byte(`{"keys":[`+string(k.PublicJSON())+`]}`), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v.issuers[0].keys.set.Store(set)
	return v, k
}

// FuzzVerify: no token but one that the issuer has signed is anybody's, and no error is none.
func FuzzVerify(f *testing.F) {
	v, k := offline(f, VerifierOptions{})
	i := oauthtest.Issuer{URL: "http://127.0.0.1:1", Key: k}
	good := i.Token(fuzzResource, nil)
	for _, seed := range []string{good, good + ".", "." + good, good[:len(good)-1], "a.b.c", "", "..", "e30.e30.", "e30.e30.e30.e30.e30", strings.ToUpper(good), "=", good + "="} {
		f.Add(seed, false, "")
	}
	f.Add(good, true, good)
	f.Fuzz(func(t *testing.T, raw string, isDPoP bool, proof string) {
		who, err := v.Authenticate(context.Background(), Credentials{
			Token: raw, DPoP: isDPoP, Proofs: []string{proof}, Method: "POST", Path: "/mcp",
		})
		if (who == nil) == (err == nil) {
			t.Fatalf("%q is %v, %v", raw, who.Name(), err)
		}
		if who != nil && (raw != good || isDPoP) {
			t.Fatalf("%q is %s", raw, who.Name())
		}
		var refused *Refusal
		if errors.As(err, &refused) && (len(raw) > 20 && strings.Contains(refused.Challenge+refused.Error(), raw) || strings.ContainsAny(refused.Challenge, "\r\n")) {
			t.Fatalf("%q", refused.Challenge)
		}
	})
}

// FuzzProof: any text as a proof, for a token that is bound: none is accepted but a good one,
// and that once.
func FuzzProof(f *testing.F) {
	v, _ := offline(f, VerifierOptions{})
	client := oauthtest.NewClient(f)
	bound := verified{bound: binding{jkt: client.Key.Thumbprint()}}
	good := client.Proof("POST", fuzzResource, "token", nil)
	f.Add(good)
	f.Add(good[:len(good)-2])
	f.Add(client.Proof("POST", fuzzResource, "token", func(h, _ map[string]any) { h["jwk"] = map[string]any{"kty": "oct", "k": "AA"} }))
	f.Add(client.Proof("POST", fuzzResource, "token", func(_, c map[string]any) { c["htu"] = "http://[::1" }))
	f.Fuzz(func(t *testing.T, proof string) {
		shown := Credentials{Token: "token", DPoP: true, Proofs: []string{proof}, Method: "POST", Path: "/mcp"}
		err := v.checkRequest(&bound, &shown, digestOf("token"))
		if err == nil && proof != good {
			t.Fatalf("%q is accepted", proof)
		}
		if v.checkRequest(&bound, &shown, digestOf("token")) == nil {
			t.Fatalf("%q is accepted twice", proof)
		}
	})
}

// FuzzURL: two URLs are the same only where their paths are.
func FuzzURL(f *testing.F) {
	f.Add("http://127.0.0.1:9/mcp")
	f.Add("HTTP://127.0.0.1:9/mcp?x#y")
	f.Add("http://127.0.0.1:9//mcp")
	f.Fuzz(func(t *testing.T, claimed string) {
		if isSameURL(claimed, fuzzResource) && !strings.HasPrefix(strings.ToLower(claimed), fuzzResource) {
			t.Fatalf("%q", claimed)
		}
	})
}
