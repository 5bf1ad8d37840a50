// SPDX-License-Identifier: Apache-2.0

// Package conformance tests the binary that users run, in front of tool
// services that others wrote and behind clients that others wrote.
//
// Its tests start the sidecar as a process (package sidecar), start a backend
// on loopback (package peer: grpc-go's example servers as they are, and servers
// with one property each, such as TLS or a Unix socket), and call tools over
// every edge (package caller: the MCP Go SDK, Connect, grpc-go, plain HTTP,
// lines on stdio). What must hold, holds for every edge of the list in package
// caller, so an edge that is added there is tested everywhere.
//
// Package fixture is a backend that serves what the official MCP conformance
// suite asks for; the command suite runs that suite, and clients/ holds the
// TypeScript client that it runs as well.
//
// Package h2 runs h2spec and HTTP/2 clients that others wrote.
//
// It is its own module: its dependencies never reach users.
package conformance
