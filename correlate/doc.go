// SPDX-License-Identifier: Apache-2.0

// Package correlate knows which calls are in flight. It stands between the
// envelope and the bridge: an edge registers a request before it is handled
// and finishes it before the reply is written.
//
// An id means something only within its Origin, the stream, process, session
// or HTTP request that it came from. So callers that use the same ids never
// meet, and a second call with an id in flight is refused without harm to the
// first.
//
// A call ends in exactly one way, and the table decides which: Finish won, and
// its caller may write the one reply; or Cancel or CloseOrigin came first, and
// there is no reply. A deadline and the cut at the end of a Drain end the
// context only: such a call is still answered.
//
// A Pool buffers responses that arrive before somebody asks for them; Match
// takes one out without waiting, and Peek reads one and leaves it there.
//
// The package starts no goroutine and sets no timer but that of a call's
// deadline, which Finish stops. It knows nothing of methods, tools and errors
// on the wire. All methods are safe for concurrent use.
package correlate
