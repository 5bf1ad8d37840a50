// SPDX-License-Identifier: Apache-2.0

// Package peer runs tool services for the sidecar to stand beside: the example
// servers of grpc-go, built from their module and run as processes, and servers
// in this process that have one property each (TLS, a Unix socket, only
// Connect, only gRPC-Web, errors with details and trailers).
//
// Every peer listens on loopback, is ready when its function returns, and ends
// with the test.
package peer
