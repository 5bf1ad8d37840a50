// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Credentials are what a caller shows with a request.
type Credentials struct {
	// Token is the bearer token; "" for none.
	Token string
	// URIs are the URI names of the certificate that the caller's connection was
	// made with, which has been verified; none where there was none.
	URIs []string
}

// Reason is why credentials were refused.
type Reason string

// The reasons, as metrics and the log have them.
const (
	// Missing: nothing was shown.
	Missing Reason = "missing"
	// Malformed: what was shown is no bearer token.
	Malformed Reason = "malformed"
	// Unknown: the credentials are not known.
	Unknown Reason = "unknown"
)

// Reasons are all reasons, in their order.
func Reasons() []Reason { return []Reason{Missing, Malformed, Unknown} }

// Refusal is the answer to missing, malformed or unknown credentials.
type Refusal struct {
	Reason Reason
	// Challenge is the value of WWW-Authenticate (RFC 6750, section 3).
	Challenge string
}

// Error says what to do, and holds nothing of what was shown.
func (r *Refusal) Error() string {
	switch r.Reason {
	case Missing:
		return "send Authorization: Bearer TOKEN with every request"
	case Malformed:
		return "send one Authorization header, Bearer and a token of at least 16 and at most 4,096 letters, digits and -._~+/="
	case Unknown:
	}
	return "unknown credentials; ask the operator of the sidecar for an entry in its callers file"
}

// Authenticator finds out who shows what. The error is a *[Refusal] where the
// credentials are at fault; anything else is a fault of this side.
type Authenticator interface {
	Authenticate(ctx context.Context, shown Credentials) (*Identity, error)
}

// realm names what the credentials are for.
const realm = `Bearer realm="outrigger"`

// Refuse is the refusal for a reason. A request that showed nothing is not told
// of an error (RFC 6750, section 3.1).
func Refuse(why Reason) *Refusal {
	r := &Refusal{Reason: why, Challenge: realm}
	switch why {
	case Malformed:
		r.Challenge += `, error="invalid_request"`
	case Unknown:
		r.Challenge += `, error="invalid_token"`
	case Missing:
	}
	return r
}

// NotPermitted is the value of WWW-Authenticate for a caller who is known, and may
// not do what it asks for (RFC 6750, section 3.1). It names no scope: what a caller
// may do stands in the callers file, and there is no server that a client could
// ask for more.
func NotPermitted() string { return realm + `, error="insufficient_scope"` }

// Certificates takes callers for whom their certificate names, and lets them call
// everything: whose certificates are believed was settled before. A token is no
// use to it.
type Certificates struct{}

// Authenticate implements [Authenticator].
func (Certificates) Authenticate(_ context.Context, shown Credentials) (*Identity, error) {
	if len(shown.URIs) == 0 {
		return nil, Refuse(Missing)
	}
	every := []string{glob.Anything}
	return newLasting(Grant{Name: shown.URIs[0], Tools: every, Resources: every, Prompts: every}), nil
}
