// SPDX-License-Identifier: Apache-2.0

// Package correlate knows which calls are in flight: it registers requests, cancels them
// by id, and decides which of them may still be answered.
//
// Programs that embed a sidecar use the package outrigger at the module's root, and need
// nothing of this one. Its signatures have ids and messages of internal/jsonrpc, which
// other modules cannot name.
//
// # A tour
//
// A [Table] holds the calls in flight. An edge takes an [Origin] for each connection,
// session or request, calls [Table.Register] when it has read a request, works with
// [Call.Context], and calls [Call.Finish] before it writes the reply.
//
// An id means something only within its Origin. Two callers with the same ids never meet;
// a second call with an id that is in flight is refused, and the first one goes on.
//
// A call ends in one way, and the table decides which: either Finish comes first, and the
// reply may be written; or [Table.Cancel] or [Table.CloseOrigin] comes first, and no reply
// may be written. The end of a deadline, and the end of a [Table.Drain] that ran out of
// time, end the context alone: such a call is still answered.
//
// A [Pool] buffers responses by id until they are asked for: [Pool.Expect],
// [Pool.Deliver], then [Match] or [Peek], which never wait.
//
// The package starts no goroutine, and sets no timer but that of a call's deadline, which
// Finish stops. All methods are safe for concurrent use.
package correlate
