// SPDX-License-Identifier: Apache-2.0

// Package access knows who a request comes from and what they may do.
//
// An [Authenticator] turns what a caller shows (a bearer token, the names of a
// verified certificate) into an [Identity], or says why it cannot. There are two:
// a [Book] of callers that an operator wrote down, and [Certificates], which
// takes a verified certificate for what it says. One that asks an authorization
// server would be a third, and nothing else would change: edges and the pipeline
// see the Identity alone.
//
// The package decides nothing about a call. The pipeline asks the Identity, once
// the tool is known. It reads no headers, which are the edges' business, and no
// files.
//
// Tokens are known by their SHA-256 alone and compared in constant time. Nothing
// here, no error either, ever holds a token for longer than it takes to find out
// whose it is. Everything is safe for concurrent use.
package access
