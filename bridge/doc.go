// SPDX-License-Identifier: Apache-2.0

// Package bridge answers every request that an edge reads, whatever dialect it
// came in.
//
// It has two layers. [Bridge.Handle] is neutral: it takes a [Request] that
// names an operation and, for a call, a tool and its arguments as bytes, runs
// it through one pipeline (register, resolve, gate, validate, call) and returns
// a [Response]. Around it, [Bridge.HandleMessage] reads one JSON-RPC envelope
// in its [Dialect] and writes the reply; what differs between dialects stands
// in one era_*.go file each.
//
// Edges import this package and nothing deeper; the Protobuf edge calls Handle,
// the JSON-RPC edges call HandleMessage. Errors stay canonical
// ([errmap.Error]) until a reply is written, which is the one place that asks
// errmap for a dialect's words.
//
// The package refuses to know HTTP beyond header names and statuses, opens no
// socket and starts no goroutine. A *Bridge is safe for concurrent use; a
// Request belongs to one call of Handle.
package bridge
