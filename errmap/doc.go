// SPDX-License-Identifier: Apache-2.0

// Package errmap holds the canonical error table and turns one canonical error into the vocabulary of each edge.
//
// It is the only place where error vocabularies meet: HTTP statuses, JSON-RPC codes, the two MCP eras, and Connect
// codes with google.rpc details. The stages of the pipeline return an *[Error]; the edge that answers asks this package
// once how the error shows. The table itself is in table.go; docs/errors.md is rendered from it.
//
// The conversions are total: every code shows as something on every edge, and no reply carries the code 0. A code that
// the table does not hold is [ErrUnknownCode] from [Lookup]. [From], which every conversion calls first, makes an
// INTERNAL_ERROR of it that wraps ErrUnknownCode, so that the fault of our own is seen in the log under its name.
//
// The package refuses to show a cause. Causes are kept for the log, through Error and Unwrap, and no conversion reads
// them. Every message passes [Redact] on its way out.
//
// All functions are safe for concurrent use. An *Error is built by one goroutine and not changed after that.
package errmap
