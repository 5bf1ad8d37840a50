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
// goroutine. Without a [Store] it exists in one process. In any other process its
// id is unknown, and the client then opens a new session.
//
// With a Store, any replica serves a session that was opened with
// [Manager.OpenShared]: what is known of it is a [Record], and the events of its
// streams are stored before they are sent (docs/decisions/0060-shared-sessions.md).
//
// All types are safe for concurrent use.
package session
