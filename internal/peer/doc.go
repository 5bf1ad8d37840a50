// SPDX-License-Identifier: Apache-2.0

// Package peer bounds what those who connect may hold: connections, memory, unread responses, and shares of every limit.
//
// # Connections
//
// A [Gate] limits the connections of a listener: their number in total
// and per address, and the requests and the age of each connection. It is between
// the listener and the HTTP server.
//
// A new connection over a limit replaces one that has been idle for a while. If
// there is none, the new one is closed at once, as proxies do. So idle connections
// never block an active client. The caller sets the limits; [FitFiles] returns how many
// connections the process has file descriptors for.
//
// # Listeners
//
// [Sockets] track the connections of HTTP listeners, from Accept to Close, and
// drain them without losing a request.
//
// A [Socket] is one listener with its server; [Sockets] are those of a process.
// Leave asks all connections to go, DrainConns waits until they have gone and closes the
// main listener, Close ends what is left. HTTP/2 connections are served by internal/h2
// (http2.go), which sends the two GOAWAY frames that RFC 9113, section 6.8, asks for.
// They know no configuration, no handler and no policy.
//
// # Slow peers
//
// Peers that do not read their responses, or send their requests slowly, must not hold memory that others need.
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
// # Memory
//
// A [MemoryGuard] keeps the process within its memory limit: it determines the
// limit, configures Go's garbage collector, and monitors usage, so that new work
// can be rejected before the kernel kills the process.
//
// It rejects nothing itself: [MemoryGuard.Short] is for code that admits work.
//
// # Stalls of this process
//
// A [Clock] detects when this process itself was stalled: stopped by a signal,
// or without CPU because others used it. A timer that fires after a stall says
// nothing about the peer, because the peer's response may be unread.
//
// # Shares
//
// A [Ledger] divides a limit among callers: it computes how much one caller
// may hold, so that others always find some left. It knows no callers and no
// resources; the owners of limits use it.
//
// All types are safe for concurrent use; [Sockets.Add] comes before the other methods of [Sockets].
package peer
