// SPDX-License-Identifier: Apache-2.0

// Package stdio is the edge for one peer at the other end of two pipes: one
// JSON-RPC message per line, read from standard input and answered on standard
// output. It detects the dialect of each line, limits the length of lines, runs
// requests concurrently and writes one whole line at a time. An invalid line
// gets an error response and never ends the conversation.
//
// A pipe has flow control, so nothing is shed: requests wait in a bounded queue,
// and while it is full the edge does not read. Responses, notifications and
// pings are handled as they are read, because a running call may wait for them.
// Such a call holds no slot, so a pause never blocks input that it waits for.
//
// It writes only messages to its output, opens no listener and installs no
// signal handler. It ends with its input or its context.
package stdio
