// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles makes TLS settings from PEM files, and reloads them when the
// files change.
//
// A [Server] is the server side, a [Client] the client side. Each has a
// tls.Config for the lifetime of the process, which uses the current files at
// every handshake: existing connections continue, and new ones use the new files.
// If a file is invalid, the last good one stays in use; the error says what is
// wrong and reveals nothing of a key.
//
// Both require TLS 1.2 and prefer 1.3. The peer's certificate is verified by its
// chain and, if names are given, by its URI names (RFC 5280, section 4.2.1.6),
// such as SPIFFE ids. Verification cannot be disabled.
//
// [Read] is how it and other packages read a small file of keys, certificates or secrets.
// It does not watch files itself. Everything is safe for concurrent use.
package tlsfiles
