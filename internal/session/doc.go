// SPDX-License-Identifier: Apache-2.0

// Package session keeps the state of the legacy eras of MCP between messages: who
// opened a session with which capabilities, its log level and resource
// subscriptions, questions that wait for the client's answer, and the streams of
// messages to the client, which outlive their connections.
//
// Everything has a limit: the number of sessions (the least recently used one is
// evicted), their idle time, the size of the client's declarations, resource
// subscriptions, streams, the size and age of the replay buffers, and the size of
// all replay buffers together. An idle session costs a few kilobytes and no
// goroutine. It exists in one process. In any other process its id is unknown,
// and the client then opens a new session.
//
// All types are safe for concurrent use.
package session
