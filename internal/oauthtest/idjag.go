// SPDX-License-Identifier: Apache-2.0

package oauthtest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// What the Identity Assertion JWT Authorization Grant is made of (draft-ietf-oauth-identity-assertion-authz-grant-04).
//
//nolint:gosec // names of grants and tokens, no credentials
const (
	GrantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	GrantJWTBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	ProfileIDJAG       = "urn:ietf:params:oauth:grant-profile:id-jag"

	typeIDJAG, typeIDToken = "urn:ietf:params:oauth:token-type:id-jag", "urn:ietf:params:oauth:token-type:id_token"
	headerIDJAG            = "oauth-id-jag+jwt"
)

// TokenEndpoint is the URL of the token endpoint.
func (i *Issuer) TokenEndpoint() string { return i.URL + "/token" }

// SignIn is the id token that a client gets for a subject that signs in at the issuer, as an identity provider.
func (i *Issuer) SignIn(subject, client string) string {
	now := time.Now().Unix()
	return i.Key.Sign(map[string]any{"alg": i.Key.Algorithm, "kid": i.Key.ID, "typ": "JWT"},
		map[string]any{"iss": i.URL, "sub": subject, "aud": client, "iat": now, "exp": now + 300})
}

// IDJAG is a grant of the issuer, as an identity provider, with other claims where change makes them.
func (i *Issuer) IDJAG(server, resource, subject, client, scope string, change func(claims map[string]any)) string {
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": i.URL, "aud": server, "resource": resource, "sub": subject, "client_id": client, "scope": scope,
		"jti": rand.Text(), "iat": now, "exp": now + 300,
	}
	if change != nil {
		change(claims)
	}
	return i.Key.Sign(map[string]any{"alg": i.Key.Algorithm, "kid": i.Key.ID, "typ": headerIDJAG}, claims)
}

// Trust has the issuer, as an authorization server, take the grants of an identity provider.
func (i *Issuer) Trust(provider *Issuer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.provider = provider
}

// Deny has the issuer, as an identity provider, refuse grants for a resource.
func (i *Issuer) Deny(resource string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.denied = append(i.denied, resource)
}

// token is the token endpoint, for the two grants.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	var given map[string]any
	fault := "unsupported_grant_type"
	switch r.PostFormValue("grant_type") {
	case GrantTokenExchange:
		given, fault = i.exchange(r)
	case GrantJWTBearer:
		given, fault = i.redeem(r)
	}
	if fault != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": fault}) //nolint:errchkjson // of a text
		return
	}
	answer(w, given)
}

// exchange gives a grant for an id token (RFC 8693).
func (i *Issuer) exchange(r *http.Request) (map[string]any, string) {
	form := r.PostFormValue
	claims := i.verified(form("subject_token"), "JWT")
	i.mu.Lock()
	isDenied := slices.Contains(i.denied, form("resource"))
	i.mu.Unlock()
	switch {
	case form("requested_token_type") != typeIDJAG || form("subject_token_type") != typeIDToken:
		return nil, "invalid_request"
	case claims == nil || claims["aud"] != form("client_id"):
		return nil, "invalid_grant"
	case isDenied:
		return nil, "access_denied"
	}
	subject, _ := claims["sub"].(string)
	return map[string]any{
		"issued_token_type": typeIDJAG, "token_type": "N_A", "expires_in": 300, "scope": form("scope"),
		"access_token": i.IDJAG(form("audience"), form("resource"), subject, form("client_id"), form("scope"), nil),
	}, ""
}

// redeem gives an access token for a grant, once (RFC 7523).
func (i *Issuer) redeem(r *http.Request) (map[string]any, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.provider == nil {
		return nil, "invalid_grant"
	}
	claims := i.provider.verified(r.PostFormValue("assertion"), headerIDJAG)
	id, _ := claims["jti"].(string)
	switch {
	case claims == nil, claims["aud"] != i.URL, claims["client_id"] != r.PostFormValue("client_id"), id == "" || i.redeemed[id]:
		return nil, "invalid_grant"
	}
	i.redeemed[id] = true
	resource, _ := claims["resource"].(string)
	own := i.Claims(resource)
	own["sub"], own["client_id"], own["scope"] = claims["sub"], claims["client_id"], claims["scope"]
	return map[string]any{"token_type": "Bearer", "expires_in": 300, "scope": own["scope"], "access_token": i.Key.Sign(i.Header(), own)}, ""
}

// verified are the claims of a token of the issuer of one type that has not expired; nil for any other.
func (i *Issuer) verified(token, typ string) map[string]any {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(i.Key.Algorithm)})
	if err != nil {
		return nil
	}
	payload, err := signed.Verify(i.Key.JWK())
	header, _, _ := strings.Cut(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(header)
	var claims, said map[string]any
	if err != nil || json.Unmarshal(payload, &claims) != nil || json.Unmarshal(raw, &said) != nil || said["typ"] != typ {
		return nil
	}
	if exp, _ := claims["exp"].(float64); claims["iss"] != i.URL || int64(exp) <= time.Now().Unix() {
		return nil
	}
	return claims
}
