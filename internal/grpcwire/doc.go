// SPDX-License-Identifier: Apache-2.0

// Package grpcwire is the client's end of one HTTP/2 connection that carries
// unary gRPC calls and nothing else: each sends one message and gets one back.
// That makes a call cheap. It takes no goroutine of its own, calls that are made
// at the same time share one write, and an answer is read from the socket into
// the buffer that its caller gets.
//
// A [Conn] is made on a connection that somebody else dialled. It does not dial,
// retry, or choose among connections, and it leaves the meaning of a status to
// its user. What it tells of a call that failed is exact: whether any byte of the
// request was given to the socket, and whether all of them were taken.
//
// Everything is bounded: the answer's message and headers by their limits, the
// bytes waiting to be written by a high-water mark, answers to the peer's pings
// and settings by a limit after which the connection is given up. Windows are
// those of RFC 9113, section 5.2; header fields are compressed with hpack of
// golang.org/x/net.
//
// A Conn is safe for concurrent use.
package grpcwire
