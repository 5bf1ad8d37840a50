// SPDX-License-Identifier: Apache-2.0

// Package bridge runs every request that an edge reads, whatever protocol it came
// in.
//
// [Bridge.Handle] takes a [Request] that names an operation and, for a call, a tool
// and its arguments as bytes. It runs the request through one pipeline (register,
// resolve, gate, validate, call) and returns a [Response]. Edges that read many
// requests from one stream use [Bridge.Begin] and [Flight.Run] instead.
//
// The package knows no wire format. The Protobuf edge calls Handle; what reads and
// writes JSON-RPC is the package internal/dialect in front of this one, which this
// one does not import. Where an edge leaves parts of a message unread, the pipeline
// asks its [Envelope] for them. Errors stay canonical ([errmap.Error]): the edges
// put them into the words of their callers.
//
// The package refuses to know HTTP beyond header names and statuses, opens no
// socket and starts no goroutine. A *Bridge is safe for concurrent use; a
// Request belongs to one call of Handle.
package bridge
