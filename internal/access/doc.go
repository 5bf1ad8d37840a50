// SPDX-License-Identifier: Apache-2.0

// Package access identifies callers and their permissions.
//
// An [Authenticator] turns credentials (a bearer token, the names of a verified
// certificate) into an [Identity], or returns the reason why it cannot. There are
// two: a [Book] of callers from the callers file, and [Certificates], which
// accepts every verified certificate. An authenticator that asks an authorization
// server would be a third, without other changes: edges and the pipeline only see
// the Identity.
//
// The package decides nothing about a call. The pipeline asks the Identity once
// the tool is known. It reads no headers, which is the job of the edges, and no
// files.
//
// Tokens are stored only as SHA-256 digests and compared in constant time.
// Nothing, including errors, keeps a token after authentication. Everything is
// safe for concurrent use.
package access
