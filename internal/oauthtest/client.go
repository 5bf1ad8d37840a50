// SPDX-License-Identifier: Apache-2.0

package oauthtest

import (
	"crypto/sha256"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Client is an OAuth client with a key for DPoP proofs (RFC 9449).
type Client struct {
	Key *Key

	proofs atomic.Int64
}

// NewClient makes a client.
func NewClient(tb testing.TB) *Client {
	tb.Helper()
	return &Client{Key: NewKey(tb, "", "ES256")}
}

// Confirmation is the claim cnf of a token that is bound to the client's key.
func (c *Client) Confirmation() map[string]any { return map[string]any{"jkt": c.Key.Thumbprint()} }

// Proof is a proof for a request with a token, with another header and other claims where
// change makes them.
func (c *Client) Proof(method, url, token string, change func(header, claims map[string]any)) string {
	sum := sha256.Sum256([]byte(token))
	header := map[string]any{"typ": "dpop+jwt", "alg": c.Key.Algorithm, "jwk": c.Key.JWK()}
	claims := map[string]any{
		"htm": method, "htu": url, "iat": time.Now().Unix(), "ath": encode(sum[:]),
		"jti": "proof-" + strconv.FormatInt(c.proofs.Add(1), 10),
	}
	if change != nil {
		change(header, claims)
	}
	return c.Key.Sign(header, claims)
}
