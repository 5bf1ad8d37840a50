// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"crypto/x509"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Options configure a [Verifier]. Zero numbers and durations are the defaults.
type Options struct {
	// Issuers are the authorization servers. At least one.
	Issuers []Issuer
	// Resource is the URL that clients use for the sidecar, as the operator wrote it.
	Resource string
	// Scope returns the scope parameter of 401 challenges of now, "" for none; nil for none.
	Scope func() string
	// Leeway is the tolerance between the clocks of issuer and sidecar; negative for none.
	Leeway time.Duration
	// Algorithms are the accepted signature algorithms; empty for [Algorithms].
	Algorithms []string
	// StrictType accepts only tokens of type at+jwt.
	StrictType bool
	DPoP       DPoP
	// Grant is what OAuth callers may do. Its name is not used.
	Grant access.Grant

	// Book is the callers file; nil without one. It decides about tokens that are no issuer's,
	// and its entries may claim subjects of issuers.
	Book *access.Book
	// NoToken authenticates requests without a token, by their certificates; nil refuses them.
	NoToken access.Authenticator

	// MaxTokens bounds the cache of verified tokens, MaxTokenBytes a token.
	MaxTokens, MaxTokenBytes int
	// RefreshInterval is how often keys are fetched. FetchInterval is the minimum time between
	// two fetches that tokens cause.
	RefreshInterval, FetchInterval time.Duration
	// FetchTimeout and MaxFetchBytes bound a request to an issuer and its response.
	FetchTimeout  time.Duration
	MaxFetchBytes int

	// Log is bounded by the package; nil discards.
	Log *zap.Logger
}

// Issuer is one authorization server.
type Issuer struct {
	// URL is the issuer. JWKS, if set, is the URL of its keys, and replaces discovery.
	URL, JWKS string
	// Audiences are accepted besides the resource.
	Audiences []string
	// GroupsClaim has the groups. The values of RolesClaim count as scopes. Both are a name, or
	// a path of names with dots; empty for none.
	GroupsClaim, RolesClaim string
	// Introspection is nil if tokens that are no JWTs are refused.
	Introspection *Introspection
	// CAs are trusted to sign the issuer's certificate; nil for the system's.
	CAs *x509.CertPool
}

// Introspection is the introspection endpoint of an issuer.
type Introspection struct {
	// URL is empty for that of the issuer's metadata.
	URL, ClientID string
	// Secret returns the client secret. It is called for each request.
	Secret func() (string, error)
	// TTL is how long a response is used at most.
	TTL time.Duration
	// MaxConcurrent bounds concurrent requests.
	MaxConcurrent int
}

// DPoP configures tokens that are bound to a key of the client (RFC 9449).
type DPoP struct {
	// Required refuses tokens that are not bound to a key.
	Required bool
	// Nonces requires a nonce of this process in every proof.
	Nonces bool
	// MaxAge is the maximum difference between the time of a proof and ours.
	MaxAge time.Duration
	// MaxProofs bounds the proofs that are remembered.
	MaxProofs int
}

// Algorithms returns all signature algorithms that can be accepted, which is the default.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func orElse[T comparable](given, otherwise T) T {
	var zero T
	if given == zero {
		return otherwise
	}
	return given
}

// filled returns the options with defaults.
func (o Options) filled() Options {
	o.Leeway = max(0, orElse(o.Leeway, defaults.OAuthLeeway))
	if len(o.Algorithms) == 0 {
		o.Algorithms = Algorithms()
	}
	o.MaxTokens = orElse(o.MaxTokens, defaults.OAuthMaxCachedTokens)
	o.MaxTokenBytes = orElse(o.MaxTokenBytes, defaults.OAuthMaxTokenBytes)
	o.RefreshInterval = orElse(o.RefreshInterval, defaults.OAuthKeyRefreshInterval)
	o.FetchInterval = orElse(o.FetchInterval, defaults.OAuthKeyFetchInterval)
	o.FetchTimeout = orElse(o.FetchTimeout, defaults.OAuthFetchTimeout)
	o.MaxFetchBytes = orElse(o.MaxFetchBytes, defaults.OAuthMaxFetchBytes)
	o.DPoP.MaxAge = orElse(o.DPoP.MaxAge, defaults.DPoPMaxAge)
	o.DPoP.MaxProofs = orElse(o.DPoP.MaxProofs, defaults.DPoPMaxProofs)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}
