// SPDX-License-Identifier: Apache-2.0

// Package conn tracks the connections of HTTP listeners, from Accept to Close, and
// drains them without losing a request.
//
// A [Socket] is one listener with its server; [Sockets] are those of a process. Leave
// asks all connections to close, DrainConns waits until they have closed and closes the
// main listener, and Close closes the rest. HTTP/2 connections get the two GOAWAY
// frames that RFC 9113, section 6.8, asks for (goaway.go), because net/http sends only
// one. The package knows no configuration, no handler and no policy.
//
// All methods are safe for concurrent use, except Sockets.Add.
package conn
