// SPDX-License-Identifier: Apache-2.0

// Package stdio is the edge for one peer at the other end of two pipes: one
// JSON-RPC message a line, read from standard input and answered on standard
// output. It tells the dialect of each line, keeps lines within a bound, runs
// requests concurrently and writes one whole line at a time. A line that is no
// message is answered and never ends the conversation.
//
// A pipe has flow control, so nothing is shed: requests wait in a bounded queue,
// and while that is full nothing is read. Responses, notifications and pings are
// handled as they are read, because a call that runs may wait for them. Such a
// call holds no place, so pausing never waits for input that it keeps out.
//
// It writes nothing but messages to its output, opens no listener and installs
// no signal handler: ending is the end of input or of the context.
package stdio
