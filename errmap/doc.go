// SPDX-License-Identifier: Apache-2.0

// Package errmap has the canonical errors of the sidecar: one table of codes, and what each
// of them is on every edge (HTTP, JSON-RPC, MCP, Connect and gRPC).
//
// # A tour
//
// Build an *[Error] with [New], [Wrap] or [Because] and a [Code], or with a constructor for
// one code, such as [UnknownTool] or [InvalidInput]. Each [Option] adds a fact: the tool,
// violations, a retry hint.
//
//	err := errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second))
//
// Show it once, on the edge that answers: [Error.JSONRPC] for canonical JSON-RPC,
// [Error.MCP] for an MCP revision, [ToConnect] for Connect, gRPC and gRPC-Web. [About] says
// what the error is the answer to.
//
// Read what came from elsewhere: [From] makes a canonical error of any error, [FromBackend]
// of a status that a backend answered with, [FromConnect] of what ToConnect wrote. [CodeOf]
// finds the code of a wrapped error.
//
// A Go tool service can return such errors itself: an error from ToConnect arrives at the
// sidecar with its code, type and details. What Sidecar.CallTool of the root package returns
// is an *Error, too.
//
// [Lookup] and [Codes] give access to the table; docs/errors.md is rendered from it.
//
// # Guarantees
//
// Every code shows as something on every edge, and no reply has the code 0. A code that the
// table does not have becomes INTERNAL_ERROR and wraps [ErrUnknownCode], for the log.
//
// Causes are for logs alone: no conversion shows them. Every message passes [Redact] on its
// way out.
//
// All functions are safe for concurrent use. An *Error must not change once it is shared.
package errmap
