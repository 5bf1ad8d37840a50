// SPDX-License-Identifier: Apache-2.0

// Package keys has what needs a key: tokens that callers keep for the sidecar and cannot read or change ([Sealer]), and TLS settings
// that follow their files ([Server], [Client]).
//
// # Sealed tokens
//
// A Sealer encrypts state that callers keep for the sidecar and send back:
// request states, cursors, and task ids of a backend. A sealed token cannot be
// read or changed. It opens only for its purpose, caller and request, until it
// expires. Every replica with the same keys can open it, so the sidecar stores
// nothing.
//
// A token is "v1." and base64url without padding (RFC 4648, section 5) of
//
//	key id (4) | salt (24) | AES-256-GCM of: expiry (8) | payload, and its tag (16)
//
// where the key and the nonce of each token come from HKDF-Expand with SHA-256
// (RFC 5869) over the key and the salt. With a random salt of 24 bytes no two
// tokens share a key and a nonce, however many replicas seal with one key: a
// random nonce of 12 bytes alone would limit a key to 2^32 tokens (NIST SP
// 800-38D, section 8.3). The expiry is in milliseconds since 1970, encrypted with
// the payload. Purpose, caller and digest are associated data: they are not in
// the token. A token has exactly one spelling.
//
// [Sealer] seals and opens; [Keys] are its keys; [Digest] identifies a request;
// [Spent] remembers tokens that may be used only once. [Sealer.SealRaw] makes the same
// bytes without prefix and base64, for what is stored and not sent.
//
// It does not reveal why a token does not open, except that it has
// expired. It knows no callers, dialects or files: to reload keys, call
// [Sealer.Replace]. Everything is safe for concurrent use.
//
// # TLS
//
// TLS settings are made from PEM files, and reloaded when the files change. A [Server] is the server side, a [Client] the client side. Each has a
// tls.Config for the lifetime of the process, which uses the current files at
// every handshake: existing connections continue, and new ones use the new files.
// If a file is invalid, the last good one stays in use; the error says what is
// wrong and reveals nothing of a key.
//
// Both require TLS 1.2 and prefer 1.3. The peer's certificate is verified by its
// chain and, if names are given, by its URI names (RFC 5280, section 4.2.1.6),
// such as SPIFFE ids. Verification cannot be disabled.
//
// [ReadFile] is how this and other packages read a small file of keys, certificates or secrets.
// Nothing here watches files. Everything is safe for concurrent use.
package keys
