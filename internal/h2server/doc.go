// SPDX-License-Identifier: Apache-2.0

// Package h2server is the server side of one HTTP/2 connection. It serves an
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
//   - streams and their handlers by [Options.MaxStreams]
//   - requests that were reset before they began by four times MaxStreams
//   - answers to pings, settings and invalid frames by a number of bytes that the peer has not read
//   - pending writes by a high-water mark
//
// A [Conn] is safe for concurrent use.
package h2server
