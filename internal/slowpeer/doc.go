// SPDX-License-Identifier: Apache-2.0

// Package slowpeer keeps peers that do not read their answers, or are slow to
// send their requests, from holding memory that others need.
//
// A write has no deadline for its whole length: a slow reader of a large answer
// is fine as long as it reads. What counts is progress. Progress is watched in
// two places, because HTTP has two kinds of flow control:
//
//   - [Listener] watches connections. A connection on which nothing has moved for
//     the write timeout, although something waits to be written, is closed. This
//     covers HTTP/1 and everything that net/http writes itself.
//   - [Budget] watches answers. On HTTP/2 the peer may hold back one stream while
//     its connection is fine; such a stream is reset.
//
// The Budget also counts the bytes that wait: answers that are being written, and
// bodies that are being read. It refuses a caller that holds more than its share,
// and where memory gets short it ends the answers that stand still before anybody
// else notices.
//
// All types are safe for concurrent use.
package slowpeer
