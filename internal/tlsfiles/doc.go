// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles makes TLS settings out of PEM files, and again when the files
// change.
//
// A [Server] is the side that is called, a [Client] the side that calls. Each has
// a tls.Config for the life of the process, which looks up what is current at
// every handshake: a connection that is there goes on as it was made, the next
// one sees the new files. Files that cannot be used leave the last good ones in
// place; the error says what is wrong and nothing of a key.
//
// Both speak TLS 1.2 at least, and prefer 1.3. The peer's certificate is verified
// by its chain and, where names are given, by the URI names (RFC 5280, section
// 4.2.1.6) that it carries: SPIFFE ids are such names. There is no way to switch
// off verification.
//
// It watches nothing by itself. Everything is safe for concurrent use.
package tlsfiles
