// SPDX-License-Identifier: Apache-2.0

// Package grpcwire is the client side of one HTTP/2 connection for unary gRPC
// calls only: each call sends one message and receives one. This makes a call
// cheap. It starts no goroutine per call, concurrent calls share one write, and a
// response is read from the socket directly into the buffer of its caller.
//
// A [Conn] uses a connection that its caller has dialed. It does not dial, retry,
// or select among connections, and leaves the meaning of a status to its user.
// Its report about a failed call is exact: whether any byte of the request was
// given to the socket, and whether all of them were.
//
// Everything is limited: the message and headers of a response, the bytes waiting
// to be written by a high-water mark, and responses to the peer's pings and
// settings by a limit that closes the connection. Windows follow RFC 9113,
// section 5.2. Header fields are compressed with hpack of golang.org/x/net.
//
// A Conn is safe for concurrent use.
package grpcwire
