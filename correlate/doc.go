// SPDX-License-Identifier: Apache-2.0

// Package correlate is the table of calls in flight. It is between the envelope
// and the bridge: an edge registers a request before it is handled, and
// finishes it before the reply is written.
//
// An id is unique only within its Origin: the stream, process, session or HTTP
// request that it came from. So callers with the same ids never affect each
// other, and a second call with an id in flight is rejected without affecting
// the first.
//
// A call ends in exactly one way, and the table decides which. Either Finish
// comes first, and the caller of Finish may write the one reply; or Cancel or
// CloseOrigin comes first, and there is no reply. A deadline, and the cutoff at
// the end of a Drain, end only the context: such a call still gets a reply.
//
// A Pool buffers responses until they are polled. Match takes one out without
// waiting; Peek reads one and leaves it there.
//
// The package starts no goroutines, and no timers except for the deadline of a
// call, which Finish stops. It knows nothing of methods, tools and wire errors.
// All methods are safe for concurrent use.
package correlate
