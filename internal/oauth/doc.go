// SPDX-License-Identifier: Apache-2.0

// Package oauth makes the sidecar an OAuth 2.1 resource server: it turns access tokens of
// configured authorization servers (issuers) into identities.
//
// A [Verifier] is an [access.Authenticator]. A JWT whose issuer is configured is verified
// with the issuer's keys, which are found by discovery, cached and refreshed in the background.
// Tokens that are no JWTs go to the issuer's introspection endpoint, where one is configured.
// All others belong to the callers file, and credentials without a token to the
// authenticator for certificates.
//
// A token is verified once and then found by its SHA-256 digest until it expires. What must
// hold for every request is checked for every request: the proof of a DPoP-bound token, the
// client certificate of a certificate-bound one, and that the issuer still publishes the key.
//
// The package fails closed. While an issuer cannot be reached, its last good keys stay in use,
// and a token that cannot be judged is an [access.Unavailable], not a refusal: a refusal makes
// clients log in again. Nothing that callers send makes the package fetch more often than its
// limits allow.
//
// Tokens are never logged and in no error. Only an introspected token is kept in memory, for as
// long as it is cached or a stream depends on it, because it must be introspected again.
// Everything is safe for concurrent use.
package oauth
