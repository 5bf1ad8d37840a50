// SPDX-License-Identifier: Apache-2.0

package oauth

import "github.com/outrigger-mcp/outrigger/internal/access"

// The reasons for refusing a token, besides those of package access.
const (
	// UnknownIssuer means that no configured issuer made the token.
	UnknownIssuer access.Reason = "issuer"
	// BadType means that the token is of a type that is not accepted, or encrypted.
	BadType access.Reason = "type"
	// BadAlgorithm means that its signature algorithm is not accepted.
	BadAlgorithm access.Reason = "algorithm"
	// UnknownKey means that its issuer does not publish the key that signed it.
	UnknownKey access.Reason = "key"
	// BadSignature means that the key does not verify the signature.
	BadSignature access.Reason = "signature"
	// BadClaims means that a claim is missing or not what it has to be.
	BadClaims access.Reason = "claims"
	// Expired and Early mean that the token is not valid any more, or not yet.
	Expired access.Reason = "expired"
	Early   access.Reason = "early"
	// BadAudience means that the token is for another resource.
	BadAudience access.Reason = "audience"
	// Inactive means that the issuer says that the token is not active.
	Inactive access.Reason = "inactive"
	// BadBinding means that the token is bound to another key, certificate or scheme.
	BadBinding access.Reason = "binding"
	// BadProof means that the DPoP proof is missing or wrong.
	BadProof access.Reason = "proof"
	// BadNonce means that the DPoP proof needs a nonce, or another one.
	BadNonce access.Reason = "nonce"
)

// Reasons returns the reasons of this package in order, and the one of package access that
// others have no use for.
func Reasons() []access.Reason {
	return []access.Reason{
		access.Scheme, UnknownIssuer, BadType, BadAlgorithm, UnknownKey, BadSignature, BadClaims, Expired, Early, BadAudience,
		Inactive, BadBinding, BadProof, BadNonce,
	}
}

// fault is what is wrong with a token or a proof. The text is safe in a quoted string, and
// has nothing of the token.
type fault struct {
	reason access.Reason
	text   string
}

// Error implements error.
func (f *fault) Error() string { return f.text }

func bad(why access.Reason, text string) *fault { return &fault{why, text} }
