// SPDX-License-Identifier: Apache-2.0

// Package stdio is the edge for one peer at the other end of two pipes: one
// JSON-RPC message a line, read from standard input and answered on standard
// output. It tells the dialect of each line, keeps lines within a bound, runs
// requests concurrently and writes one whole line at a time. A line that is no
// message is answered and never ends the conversation.
//
// It writes nothing but messages to its output, opens no listener and installs
// no signal handler: ending is the end of input or of the context.
package stdio
