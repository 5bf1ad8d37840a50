// SPDX-License-Identifier: Apache-2.0

// Package bridge is the pipeline that processes every request, independent of its
// protocol.
//
// [Bridge.Handle] takes a [Request] with an operation and, for a call, a tool and
// its arguments as bytes. It runs the request through one pipeline (register,
// resolve, gate, validate, call) and returns a [Response]. Edges that read many
// requests from one stream use [Bridge.Begin] and [Flight.Run] instead.
//
// The package knows no wire format. The Protobuf edge calls Handle directly. The
// package internal/dialect reads and writes JSON-RPC in front of this package,
// which does not import it. If an edge leaves parts of a message unread, the
// pipeline requests them from its [Envelope]. Errors stay canonical
// ([errmap.Error]); edges translate them for their callers.
//
// The package knows nothing of HTTP except header names and statuses. It opens no
// socket and starts no goroutine. A *Bridge is safe for concurrent use; a Request
// belongs to one call of Handle.
package bridge
