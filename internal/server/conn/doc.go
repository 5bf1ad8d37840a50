// SPDX-License-Identifier: Apache-2.0

// Package conn tracks the connections of HTTP listeners, from Accept to Close, and
// drains them without losing a request.
//
// A [Socket] is one listener with its server; [Sockets] are those of a process.
// Leave asks all connections to go, Part waits until they have gone and closes the
// main listener, Close ends what is left. HTTP/2 connections are served by h2server
// (http2.go), which sends the two GOAWAY frames that RFC 9113, section 6.8, asks for.
// The package knows no configuration, no handler and no policy.
//
// All methods are safe for concurrent use, except Sockets.Add.
package conn
