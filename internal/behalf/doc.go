// SPDX-License-Identifier: Apache-2.0

// Package behalf makes the credentials with which the backend is called in the name of
// a caller.
//
// An [Exchanger] exchanges the caller's access token for one for the backend (RFC 8693).
// A [Signer] signs a short JWT that names the caller. Both return the value of the
// Authorization header of a call, or a canonical error, and both keep what they made in
// a bounded cache. They are safe for concurrent use.
//
// The caller's own token never reaches the backend. [WithToken] puts it into the context
// of a request for an Exchanger alone: nothing else can read it, and it is dropped when
// the request ends. No String method, error or log line of this package shows a token.
package behalf
