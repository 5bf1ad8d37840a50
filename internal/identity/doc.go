// SPDX-License-Identifier: Apache-2.0

// Package identity says who calls. [Middleware] reads the credentials of a request on the main listener, asks an [Authenticator],
// and puts the [Identity] into the request's context for the pipeline. It decides nothing about a call: the pipeline asks the
// Identity once the tool is known.
//
// There are three authenticators: a [Book] of callers from the callers file, [Certificates], which accepts every verified
// certificate, and a [Verifier] of access tokens. An Identity of a book ends when its entry changes. One that a token has made ends
// with its [Lease], at the token's expiry or when its issuer has revoked it. Both end streams.
//
// A Verifier makes the sidecar an OAuth 2.1 resource server for tokens of configured authorization servers (issuers). A JWT is
// verified with its issuer's keys, which are found by discovery, cached and refreshed in the background. Tokens that are no JWTs go
// to the issuer's introspection endpoint, where one is configured. All others belong to the callers file. A token is verified once
// and then found by its SHA-256 digest until it expires. What must hold for every request is checked for every request: the proof
// of a DPoP-bound token, the client certificate of a certificate-bound one, and that the issuer still publishes the key.
//
// It fails closed. While an issuer cannot be reached, its last good keys stay in use, and a token that cannot be judged is an
// [unavailableError], not a refusal: a refusal makes clients log in again. Nothing that callers send makes the package fetch more often
// than its limits allow.
//
// Credentials go no further. The middleware removes the Authorization header, so that no later stage can forward or log it, and a
// caller's own copy of the subject header, which only the sidecar writes. Tokens are stored as digests, compared in constant time,
// never logged and in no error. Only an introspected token is kept, for as long as it is cached or a stream depends on it, because
// it must be introspected again.
//
// A [MetadataHandler] serves the protected resource metadata (RFC 9728), by which a client without a token finds the authorization
// servers. It needs no authentication, and web pages of any origin may read it. It names the resource as it is configured: nothing
// in it, or in the URLs that this package makes, comes from the Host of a request.
//
// Everything is safe for concurrent use.
package identity
