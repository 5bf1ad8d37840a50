// SPDX-License-Identifier: Apache-2.0

// Package slowpeer prevents peers that do not read their responses, or send their
// requests slowly, from holding memory that others need.
//
// A write has no deadline for its total duration: a slow reader of a large
// response is fine as long as it reads. Only progress counts. It is monitored in
// two places, because HTTP has two kinds of flow control:
//
//   - [Listener] monitors connections. If something waits to be written and nothing has moved for the write timeout, it closes the connection. This covers HTTP/1 and everything that net/http writes itself.
//   - [Budget] monitors responses. On HTTP/2 the peer may block one stream while its connection is fine; such a stream is reset.
//
// The Budget also counts waiting bytes: responses that are being written, and
// bodies that are being read. It rejects requests of a caller that exceeds its
// share. When memory gets short, it ends stalled responses before other callers
// are affected.
//
// All types are safe for concurrent use.
package slowpeer
