// SPDX-License-Identifier: Apache-2.0

// Package session keeps what the legacy eras of MCP keep between messages: who
// opened a session with what capabilities, its log level and watched resources,
// the questions that wait for the client's answer, and the streams of messages
// to the client, which outlive the connections that carry them.
//
// Everything here has a bound: sessions (the longest unused one makes room for a
// new one), how long a session may be unused, what is kept of what a client said,
// the resources that a session watches, its streams, what a stream keeps so that
// it can be resumed and for how long, and what all streams keep together. A
// idle session costs some kilobyte and no goroutine. It lives in one
// process; to any other its id is unknown, which tells a client to open a new
// one.
//
// All types are safe for concurrent use.
package session
