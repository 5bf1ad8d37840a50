// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// binding is what a token is bound to; empty members for nothing (RFC 7800).
type binding struct {
	// jkt is the thumbprint of the client's key (RFC 9449), x5t that of its certificate
	// (RFC 8705).
	jkt, x5t string
}

// bindingOf reads the claim cnf. A way of binding that cannot be checked is a fault.
func bindingOf(claims map[string]any) (binding, *fault) {
	var b binding
	value, present := claims["cnf"]
	if !present {
		return b, nil
	}
	cnf, _ := value.(map[string]any)
	b.jkt, _ = cnf["jkt"].(string)
	b.x5t, _ = cnf["x5t#S256"].(string)
	known := 0
	for _, text := range []string{b.jkt, b.x5t} {
		if text != "" {
			known++
		}
	}
	if known == 0 || known != len(cnf) {
		return b, bad(BadBinding, "the token is bound in a way that is not supported")
	}
	return b, nil
}

// checkCertificate compares the certificate of the connection with the one of the token.
func (b binding) checkCertificate(shown *access.Credentials) *fault {
	if b.x5t == "" {
		return nil
	}
	if len(shown.Certificate) == 0 {
		return bad(BadBinding, "the token is bound to a client certificate, and the connection has none")
	}
	sum := sha256.Sum256(shown.Certificate)
	if subtle.ConstantTimeCompare([]byte(encode(sum[:])), []byte(b.x5t)) != 1 {
		return bad(BadBinding, "the token is bound to another client certificate")
	}
	return nil
}

// checkScheme compares the scheme of the credentials with the binding.
func (b binding) checkScheme(shown *access.Credentials, required bool) *fault {
	switch {
	case shown.DPoP && b.jkt == "":
		return bad(BadBinding, "the token is not bound to a key")
	case !shown.DPoP && b.jkt != "":
		return bad(BadBinding, "the token is bound to a key: use the scheme DPoP with a proof")
	case required && b.jkt == "":
		return bad(BadBinding, "tokens must be bound to a key")
	}
	return nil
}
