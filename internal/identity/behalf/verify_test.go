// SPDX-License-Identifier: Apache-2.0

package behalf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
)

// The page docs/on-behalf-of.md shows what is between the two marks.

// begin

// Caller is in whose name a call was made.
type Caller struct {
	Subject   string            `json:"sub"`
	SubjectID map[string]string `json:"sub_id"` // unique: who named the caller, and its name there
	Actor     struct {
		Subject string `json:"sub"`
	} `json:"act"` // the agent, if it is known
}

// Verifier verifies the tokens of one sidecar for one backend.
type Verifier struct {
	Keys             func(ctx context.Context) (jose.JSONWebKeySet, error) // GET /jwks, kept for five minutes
	Issuer, Audience string
}

// Verify returns the caller of a request.
func (v Verifier) Verify(ctx context.Context, header http.Header) (*Caller, error) {
	raw, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, errors.New("no bearer token")
	}
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if err != nil {
		return nil, err
	}
	keys, err := v.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	var caller Caller
	if err := token.Claims(keys, &claims, &caller); err != nil { // checks the signature
		return nil, err
	}
	if claims.Expiry == nil || claims.Subject == "" {
		return nil, errors.New("no exp or sub")
	}
	expected := jwt.Expected{Issuer: v.Issuer, AnyAudience: jwt.Audience{v.Audience}, Time: time.Now()}
	return &caller, claims.ValidateWithLeeway(expected, 5*time.Second)
}

// FetchKeys reads the keys of a sidecar from its admin or health listener.
func FetchKeys(ctx context.Context, url string) (set jose.JSONWebKeySet, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return set, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return set, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return set, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return set, json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&set)
}

// end

// TestVerifier: what the page shows accepts the sidecar's tokens and refuses others.
func TestVerifier(t *testing.T) {
	t.Parallel()
	s, _ := newSigner(t, pkcs8(t, edKey(t)), nil)
	stranger, _ := newSigner(t, pkcs8(t, edKey(t)), nil)
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.Close(); http.DefaultClient.CloseIdleConnections() })
	v := Verifier{
		Keys:   func(ctx context.Context) (jose.JSONWebKeySet, error) { return FetchKeys(ctx, server.URL+"/jwks") },
		Issuer: "https://sidecar.example.com", Audience: "shop",
	}
	ctx := identity.NewContext(t.Context(), oauthCaller("alice", "planner"))
	header := func(s *behalf.Signer) http.Header {
		value, err := s.Authorization(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return http.Header{"Authorization": {value}}
	}
	got, err := v.Verify(ctx, header(s))
	if err != nil || got.Subject != issuer+"#alice" || got.SubjectID["iss"] != issuer || got.SubjectID["sub"] != "alice" || got.Actor.Subject != "planner" {
		t.Fatalf("%+v, %v", got, err)
	}
	other := v
	other.Audience = "stock"
	if _, err := other.Verify(ctx, header(s)); err == nil {
		t.Error("a token for another backend")
	}
	other = v
	other.Issuer = "https://elsewhere.example.com"
	if _, err := other.Verify(ctx, header(s)); err == nil {
		t.Error("a token of another sidecar")
	}
	for name, h := range map[string]http.Header{"none": {}, "of a stranger": header(stranger), "words": {"Authorization": {"Bearer x"}}} {
		if _, err := v.Verify(ctx, h); err == nil {
			t.Errorf("a token %s", name)
		}
	}
}

// TestThePageShowsTheVerifier as it is tested here.
func TestThePageShowsTheVerifier(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("verify_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/on-behalf-of.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(code), "\n// begin\n")
	code1, _, ok := strings.Cut(rest, "\n// end\n")
	if !ok || !strings.Contains(string(page), "```go\n"+strings.TrimSpace(code1)+"\n```") {
		t.Error("docs/on-behalf-of.md does not show the code between the marks")
	}
}
