// SPDX-License-Identifier: Apache-2.0

// Package identity says who calls: it reads credentials at the edge, turns them into an [Identity], and tells clients where to get a
// token.
//
// # Callers
//
// An [Authenticator] turns credentials (a bearer token, the names of a verified
// certificate) into an [Identity], or returns the reason why it cannot. There are
// two here: a [Book] of callers from the callers file, and [Certificates], which
// accepts every verified certificate. [Verifier] is a third one, for access tokens
// of authorization servers. Edges and the pipeline only see the Identity.
//
// An Identity of a book ends when its entry changes. One that a token has made ends with
// its [Lease], at the token's expiry or when its issuer has revoked it. Both end streams.
//
// It decides nothing about a call. The pipeline asks the Identity once
// the tool is known. It reads no headers, which is the job of the edges, and no
// files.
//
// Tokens are stored only as SHA-256 digests and compared in constant time.
// Nothing here, including errors, keeps a token after authentication. Everything is
// safe for concurrent use.
//
// # Access tokens
//
// A [Verifier] makes the sidecar an OAuth 2.1 resource server: it turns access tokens of
// configured authorization servers (issuers) into identities.
//
// A [Verifier] is an [Authenticator]. A JWT whose issuer is configured is verified
// with the issuer's keys, which are found by discovery, cached and refreshed in the background.
// Tokens that are no JWTs go to the issuer's introspection endpoint, where one is configured.
// All others belong to the callers file, and credentials without a token to the
// authenticator for certificates.
//
// A token is verified once and then found by its SHA-256 digest until it expires. What must
// hold for every request is checked for every request: the proof of a DPoP-bound token, the
// client certificate of a certificate-bound one, and that the issuer still publishes the key.
//
// It fails closed. While an issuer cannot be reached, its last good keys stay in use,
// and a token that cannot be judged is an [unavailableError], not a refusal: a refusal makes
// clients log in again. Nothing that callers send makes the package fetch more often than its
// limits allow.
//
// Tokens are never logged and in no error. Only an introspected token is kept in memory, for as
// long as it is cached or a stream depends on it, because it must be introspected again.
// Everything is safe for concurrent use.
//
// # At the edge
//
// [Middleware] authenticates callers on the main
// listener. It reads the credentials of a request, asks an
// [Authenticator], and puts the identity into the request's context for
// the pipeline. It rejects unauthenticated requests in the protocol of their
// edge.
//
// Credentials go no further. The middleware removes the Authorization header,
// so that no later stage can forward or log it. It also removes a caller's own
// copy of the subject header: only the sidecar writes that header. A Middleware
// is safe for concurrent use.
//
// # Metadata
//
// A [MetadataHandler] serves the protected resource metadata (RFC 9728), by which
// a client that was sent here without a token finds the authorization servers of this
// resource. It needs no authentication and may be read by web pages of any origin.
//
// The document names the resource as it is configured. Nothing in it, and nothing in the
// URLs that this package makes, comes from the Host of a request. A [MetadataHandler] is safe for
// concurrent use.
package identity
