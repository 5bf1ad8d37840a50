// SPDX-License-Identifier: Apache-2.0

// Package seal closes what callers carry for the sidecar and bring back: request
// states, cursors, and task ids that stand for a backend's own. A sealed token
// cannot be read or changed, and opens only for the purpose, the caller and the
// request that it was made for, until it expires. Every replica that has the
// same keys can open it, so nothing has to be remembered here.
//
// A token is "v1." and base64url without padding (RFC 4648, section 5) of
//
//	key id (4) | salt (24) | AES-256-GCM of: expiry (8) | payload, and its tag (16)
//
// where the key and the nonce of each token come from HKDF-Expand with SHA-256
// (RFC 5869) over the key and the salt. With a random salt of 24 bytes no two
// tokens share a key and a nonce, however many replicas seal with one key: a
// random nonce of 12 bytes alone would bound a key to 2^32 tokens (NIST SP
// 800-38D, section 8.3). The expiry is in milliseconds since 1970, encrypted with
// the payload. Purpose, caller and digest are associated data: they are not in
// the token. A token has exactly one spelling.
//
// [Sealer] seals and opens; [Keys] are what it does that with; [Digest] names a
// request; [Spent] remembers tokens that may be used only once.
//
// The package refuses to say why a token does not open, except that it has
// expired. It knows no caller, no dialect and no file that changes: who reads a
// key file again calls [Sealer.Replace]. Everything is safe for concurrent use.
package seal
