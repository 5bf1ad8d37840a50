// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Credentials are the credentials of a request.
type Credentials struct {
	// Token is the access token, or "" for none. Its scheme is Bearer unless DPoP is set.
	Token string
	// DPoP is set if the token came under the scheme DPoP (RFC 9449). Proofs are the values
	// of the DPoP headers.
	DPoP   bool
	Proofs []string
	// Method and Path are the HTTP method and the escaped path of the request.
	Method, Path string
	// Certificate is the verified client certificate of the connection as DER, nil for none.
	Certificate []byte
	// URIs are the URI names of the verified client certificate of the caller's
	// connection. They are empty if there was no certificate.
	URIs []string
}

// Reason is the reason why credentials were rejected.
type Reason string

// The reasons, as metrics and logs name them.
const (
	// Missing means that the request had no credentials.
	Missing Reason = "missing"
	// Malformed means that the credentials are not a bearer token.
	Malformed Reason = "malformed"
	// Scheme means that the credentials have an authentication scheme that is not accepted.
	Scheme Reason = "scheme"
	// Unknown means that the credentials are unknown.
	Unknown Reason = "unknown"
)

// Reasons returns the reasons of this package in order. An authenticator may have more of
// its own.
func Reasons() []Reason { return []Reason{Missing, Malformed, Unknown} }

// Refusal is the error for missing, malformed or unknown credentials.
type Refusal struct {
	Reason Reason
	// Challenge is the value of WWW-Authenticate (RFC 6750, section 3).
	Challenge string
	// Text, if set, is what Error returns.
	Text string
	// Invalid is set if the request is at fault (400), and not the caller (401): the
	// credentials cannot be read, or there are two.
	Invalid bool
	// Nonce, if set, is the nonce for the caller's next DPoP proof.
	Nonce string
}

// Error says what to do. It contains nothing of the credentials.
func (r *Refusal) Error() string {
	if r.Text != "" {
		return r.Text
	}
	switch r.Reason {
	case Missing:
		return "send Authorization: Bearer TOKEN with every request"
	case Malformed, Scheme:
		return "send one Authorization header, Bearer and a token of at least 16 and at most 4,096 letters, digits and -._~+/="
	case Unknown:
	}
	return "unknown credentials; ask the operator of the sidecar for an entry in its callers file"
}

// Unavailable is the error for credentials that cannot be judged now, because a server that
// has to be asked does not answer.
type Unavailable struct {
	// Retry is when to try again.
	Retry time.Duration
	// Cause is for the log only.
	Cause error
}

// Error implements error.
func (u *Unavailable) Error() string {
	return "the authorization server of the credentials cannot be reached: " + u.Cause.Error()
}

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Cause }

// Authenticator identifies callers by their credentials. The error is a *[Refusal] if
// the credentials are at fault, and an *[Unavailable] if they cannot be judged now. Any other
// error is a fault of the sidecar.
type Authenticator interface {
	Authenticate(ctx context.Context, shown Credentials) (*Identity, error)
}

// Refuser is implemented by an [Authenticator] that words its own refusals. The reason is
// [Malformed] or [Scheme]. Without it, [Refuse] does for both.
type Refuser interface {
	Refuse(why Reason, shown Credentials) *Refusal
}

// realm names what the credentials are for.
const realm = `Bearer realm="outrigger"`

// Refuse returns the refusal for a reason. The challenge for a request without
// credentials contains no error code (RFC 6750, section 3.1).
func Refuse(why Reason) *Refusal {
	if why == Scheme {
		why = Malformed
	}
	r := &Refusal{Reason: why, Challenge: realm}
	switch why {
	case Malformed:
		r.Challenge += `, error="invalid_request"`
	case Unknown:
		r.Challenge += `, error="invalid_token"`
	case Missing, Scheme:
	}
	return r
}

// NotPermitted returns the value of WWW-Authenticate for an authenticated caller that
// lacks permission (RFC 6750, section 3.1). The scopes are all that the request needs, and
// metadata is the URL of the protected resource metadata (RFC 9728, section 5.1), by which
// a client finds the server that issues tokens with these scopes. Without scopes the
// challenge names neither: then the callers file defines permissions, and there is no
// server from which a client could request more.
func NotPermitted(metadata string, scopes ...string) string {
	if len(scopes) == 0 {
		return realm + `, error="insufficient_scope"`
	}
	challenge := `Bearer error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`
	if metadata != "" {
		challenge += `, resource_metadata="` + metadata + `"`
	}
	return challenge
}

// Certificates identifies callers by the names in their certificates, and permits all
// calls. The TLS handshake has already verified the certificates. It ignores tokens.
type Certificates struct{}

// Authenticate implements [Authenticator].
func (Certificates) Authenticate(_ context.Context, shown Credentials) (*Identity, error) {
	if len(shown.URIs) == 0 {
		return nil, Refuse(Missing)
	}
	every := []string{glob.Anything}
	return newLastingOf(Grant{Name: shown.URIs[0], Tools: every, Resources: every, Prompts: every, Publish: every, Subscribe: every}, Facts{Source: SourceCertificate}), nil
}
