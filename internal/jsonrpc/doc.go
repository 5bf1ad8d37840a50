// SPDX-License-Identifier: Apache-2.0

// Package jsonrpc turns bytes into JSON-RPC 2.0 envelopes and envelopes into
// bytes. It is the first stage behind an edge and the last one before it.
//
// Parse reads one message in one pass over its bytes. The pass checks
// everything that could let two readers of the message disagree: UTF-8, the
// grammar of RFC 8259, duplicate names at any depth (compared after their
// escapes are decoded), lone surrogates, trailing data, nesting and size. A
// message that fails is still returned, with its Fault and with whatever id
// could be read, because the reply has to carry that id.
//
// Three things are never done here. Payloads are not decoded: params, result
// and error data stay raw and alias the input. Numbers in them are not
// bounded; their consumer does that. And no method has a meaning: the package
// knows JSON-RPC, only the bridge knows MCP.
//
// # Typing
//
// A member counts as present if it exists, even as null. "method" with "id" is
// a request, "method" alone a notification, "id" with "result" a success
// response, and "error", with or without "id", an error response. Any other
// combination is a FaultEnvelope.
//
// # Reserved names
//
// The names jsonrpc, id, method, params, result and error are reserved in an
// envelope. Another member is refused if its name becomes a reserved name when
// its control and format characters (Unicode Cc and Cf, so also NUL and the
// zero-width space) are dropped and the rest is folded to one case, over all
// of Unicode. So "Method", "param\u017f" and "method\u0000" are refused. All
// further members are tolerated and ignored.
//
// # Ids
//
// Ids are compared by their decoded value, so "a" equals "\u0061", and 7
// differs from "7". They are echoed byte for byte as they came. Integers are
// exact at any length within the bound; a fraction or an exponent is refused.
//
// # Error codes
//
// The code of an error is read by its value: 1.0 and 1e2 are integers, as they
// are to JSON Schema, in which the contract is written.
//
// # Making messages
//
// The functions that append write envelopes of payloads that the bridge made
// itself. The factories (NewRequest, NewNotification, NewSuccess, NewError) are
// for everybody else: they check what they are given and return only what Parse
// accepts. A Generator makes ids that never repeat.
//
// Every function is safe for concurrent use, and no value of this package but a
// Generator changes after it was returned.
package jsonrpc
