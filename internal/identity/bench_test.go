// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

func digestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// BenchmarkDoor is what a call costs at the door: with a cached token, with one and a DPoP
// proof, with a token that has to be verified, and without authentication.
func BenchmarkDoor(b *testing.B) {
	v, k := offline(b, VerifierOptions{DPoP: DPoP{MaxProofs: 1 << 24}})
	issuer := oauthtest.Issuer{URL: "http://127.0.0.1:1", Key: k}
	token, client := issuer.Token(fuzzResource, nil), oauthtest.NewClient(b)
	bound := issuer.Token(fuzzResource, func(c map[string]any) { c["cnf"] = client.Confirmation() })
	serve := func(b *testing.B, who Authenticator, show func(h http.Header)) {
		handler := NewMiddleware(MiddlewareOptions{Who: who, Subject: "x-outrigger-subject"}).
			Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		b.ReportAllocs()
		for b.Loop() {
			show(r.Header)
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != http.StatusAccepted {
				b.Fatal(w.Code)
			}
		}
	}
	b.Run("none", func(b *testing.B) { serve(b, nil, func(http.Header) {}) })
	b.Run("cached", func(b *testing.B) {
		serve(b, v, func(h http.Header) { h.Set("Authorization", "Bearer "+token) })
	})
	b.Run("dpop", func(b *testing.B) {
		proofs := make([]string, 0, 4096)
		for range cap(proofs) {
			proofs = append(proofs, client.Proof("POST", fuzzResource, bound, nil))
		}
		n := 0
		serve(b, v, func(h http.Header) {
			if n++; n%len(proofs) == 0 {
				v.replays = newReplays(1<<20, time.Hour) // the proofs are used again
			}
			h.Set("Authorization", "DPoP "+bound)
			h.Set("DPoP", proofs[n%len(proofs)])
		})
	})
	b.Run("verified", func(b *testing.B) {
		serve(b, v, func(h http.Header) {
			v.tokens = newCache(16)
			h.Set("Authorization", "Bearer "+token)
		})
	})
}
