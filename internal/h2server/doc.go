// SPDX-License-Identifier: Apache-2.0

// Package h2server is the server's end of one HTTP/2 connection. It serves an
// [http.Handler], as net/http does, and costs a small call much less: it writes
// what all calls have to say in one go, reads with one system call what has come,
// and runs handlers on goroutines that are used again.
//
// Frames are read by the Framer of golang.org/x/net/http2, which bounds header
// blocks and checks their fields, as it does within net/http. What a request looks
// like, and what becomes of an answer, is as in net/http: headers, trailers,
// deadlines, Flush, "Connection: close", an early answer that ends its stream with
// RST_STREAM(NO_ERROR). There is no push, no hijacking and no priority.
//
// Everything that a peer can make the server hold or do is bounded: the header
// block by [http.Server.MaxHeaderBytes] and a number of bytes for all its frames,
// bodies by the windows, streams and their handlers by [Options.MaxStreams],
// requests that were reset before they began by four times that, answers to pings,
// settings and wrong frames by a number of bytes that the peer has not read, what
// is written by a high-water mark.
//
// A [Conn] is safe for concurrent use.
package h2server
