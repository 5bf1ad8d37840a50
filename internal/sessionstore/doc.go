// SPDX-License-Identifier: Apache-2.0

// Package sessionstore keeps the sessions of the legacy revisions of MCP, and the events of
// their streams, in NATS JetStream (package state): a [session.Store] for all replicas.
//
// Sessions are values of a bucket, one for each, which every replica watches. Events are
// messages of a stream with a subject for each stream of a session. What only matters now,
// such as an answer of the client to a question of another replica, is a message between
// replicas, and not stored.
package sessionstore
