// SPDX-License-Identifier: Apache-2.0

// Package h2 has both ends of one HTTP/2 connection, where small calls must be cheap: [ClientConn] to a backend, and [ServerConn] for
// those who call. They share how frames are written, the bounds of RFC 9113, and the way many calls share one write.
//
// # The client
//
// A [ClientConn] is for unary gRPC calls only: each call sends one message and receives one. This makes a call
// cheap. It starts no goroutine per call, concurrent calls share one write, and a
// response is read from the socket directly into the buffer of its caller.
//
// It uses a connection that its caller has dialed. It does not dial, retry,
// or select among connections, and leaves the meaning of a status to its user.
// Its report about a failed call is exact: whether any byte of the request was
// given to the socket, and whether all of them were.
//
// Everything is limited: the message and headers of a response, the bytes waiting
// to be written by a high-water mark, and responses to the peer's pings and
// settings by a limit that closes the connection. Windows follow RFC 9113,
// section 5.2. Header fields are compressed with hpack of golang.org/x/net.
//
// A ClientConn is safe for concurrent use.
//
// # The server
//
// A [ServerConn] serves an
// [http.Handler], like net/http, and a small call costs much less: all calls share
// writes, one system call reads all data that has arrived, and handlers run on reused
// goroutines.
//
// The Framer of golang.org/x/net/http2 reads the frames. It bounds header blocks and
// checks their fields, as it does within net/http. Requests and responses behave as in
// net/http: headers, trailers, deadlines, Flush and "Connection: close". There is no push,
// no hijacking and no priority. Malformed requests are reset, also those that net/http
// answers. After a response that does not wait for the body, the client may take 400 ms to
// end the body before RST_STREAM(NO_ERROR) ends the stream.
//
// Everything that a peer can make the server hold or do is bounded:
//
//   - the header block by [http.Server.MaxHeaderBytes], and a number of bytes for all its frames
//   - bodies by the windows, after an early response by the time above too
//   - streams and their handlers by [ServerOptions.MaxStreams]
//   - requests that were reset before they began by four times MaxStreams
//   - answers to pings, settings and invalid frames by a number of bytes that the peer has not read
//   - pending writes by a high-water mark
//
// A [ServerConn] is safe for concurrent use.
package h2
