// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"net"
	"net/http"
)

// ReachBy has a verifier reach its issuers by dial, before it runs: a bubble has no network.
func (v *Verifier) ReachBy(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	for _, i := range v.issuers {
		i.fetch.client.Transport.(*http.Transport).DialContext = dial
	}
}

var (
	NewLease  = newLease
	NewLeased = newLeased
)

type Unavailable = unavailableError

// CheckIssuer returns why a text cannot be the identifier of an authorization server.
func CheckIssuer(issuer string) error { return checkIssuer(issuer) }

// CheckVerifier returns what is wrong with options.
func CheckVerifier(o VerifierOptions) error { return checkVerifier(o) }
