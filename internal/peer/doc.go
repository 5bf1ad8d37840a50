// SPDX-License-Identifier: Apache-2.0

// Package peer bounds what those who connect may hold: connections, memory, unread responses, and shares of every limit. It knows
// no configuration, no policy and no caller but by name.
//
// A [Gate] limits the connections of a listener, in total and per address, and the requests and the age of each. A new connection
// over a limit replaces one that has been idle for a while; if there is none, the new one is closed at once, as proxies do. So idle
// connections never block an active client. [FitFiles] returns how many connections the open files limit allows.
//
// A [Socket] is one listener with its server, and [Sockets] are those of a process. They track connections from Accept to Close and
// drain them without losing a request: Leave asks all connections to go, DrainConns waits until they have gone and closes the main
// listener, Close ends what is left. HTTP/2 connections are served by internal/h2 (http2.go), which sends the two GOAWAY frames of
// RFC 9113, section 6.8.
//
// Slow peers must not hold memory that others need. A write has no deadline for its total duration: a slow reader of a large
// response is fine as long as it reads. Only progress counts, and it is watched in two places, because HTTP has two kinds of flow
// control. A [Listener] closes a connection on which something waits to be written and nothing has moved for the write timeout:
// that covers HTTP/1, and what net/http writes itself. A [Budget] resets a stream that its HTTP/2 peer blocks while the connection
// is fine. It also counts the bytes that wait, of responses being written and bodies being read. It rejects requests of a caller
// over its share, and when memory gets short, it ends stalled responses before other callers are affected.
//
// A [MemoryGuard] finds the memory limit, configures Go's garbage collector and monitors usage, so that new work can be rejected
// before the kernel kills the process. It rejects nothing itself: [MemoryGuard.Short] is for code that admits work.
//
// A [Clock] detects that this process was stalled: stopped by a signal, or without CPU because others used it. A timer that fires
// after a stall says nothing about the peer, whose response may be unread.
//
// A [Ledger] divides a limit among callers: how much one of them may hold, so that others always find some left.
//
// All types are safe for concurrent use; [Sockets.Add] comes before the other methods of [Sockets].
package peer
