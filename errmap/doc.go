// SPDX-License-Identifier: Apache-2.0

// Package errmap has the canonical error table, and translates a canonical error for each edge.
//
// It is the only place where the error vocabularies meet: HTTP statuses, JSON-RPC codes, the two MCP eras, and Connect
// codes with google.rpc details. The stages of the pipeline return an *[Error]. The edge that writes the response calls
// this package once to translate it. The table is in table.go; docs/errors.md is rendered from it.
//
// The conversions are total: every code has a form on every edge, and no reply has the code 0. For a code that is not
// in the table, [Lookup] returns [ErrUnknownCode]. [From], which every conversion calls first, turns such a code into
// an INTERNAL_ERROR that wraps ErrUnknownCode, so that the log shows this bug by name.
//
// Conversions never show a cause. Causes are for the log only, through Error and Unwrap. Every message passes [Redact]
// before it is sent.
//
// All functions are safe for concurrent use. An *Error is built by one goroutine and not changed afterwards.
package errmap
