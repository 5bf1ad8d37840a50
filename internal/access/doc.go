// SPDX-License-Identifier: Apache-2.0

// Package access identifies callers and their permissions.
//
// An [Authenticator] turns credentials (a bearer token, the names of a verified
// certificate) into an [Identity], or returns the reason why it cannot. There are
// two here: a [Book] of callers from the callers file, and [Certificates], which
// accepts every verified certificate. Package oauth has a third one, for access tokens
// of authorization servers. Edges and the pipeline only see the Identity.
//
// An Identity of a book ends when its entry changes. One that a token has made ends with
// its [Lease], at the token's expiry or when its issuer has revoked it. Both end streams.
//
// The package decides nothing about a call. The pipeline asks the Identity once
// the tool is known. It reads no headers, which is the job of the edges, and no
// files.
//
// Tokens are stored only as SHA-256 digests and compared in constant time.
// Nothing here, including errors, keeps a token after authentication. Everything is
// safe for concurrent use.
package access
