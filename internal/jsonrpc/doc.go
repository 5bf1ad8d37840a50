// SPDX-License-Identifier: Apache-2.0

// Package jsonrpc turns bytes into JSON-RPC 2.0 envelopes and envelopes into
// bytes. It is the first stage after an edge for requests, and the last one before
// it for responses.
//
// Parse reads one message in one pass over its bytes. The pass checks
// everything that two readers of the message could interpret differently: UTF-8,
// the grammar of RFC 8259, duplicate names at any depth (compared after their
// escapes are decoded), lone surrogates, trailing data, nesting and size. A
// message that fails is still returned, with its Fault and with the id if it could
// be read, because the reply has to carry that id.
//
// The package never does three things. It does not decode payloads: params, result
// and error data stay raw and alias the input. It does not bound numbers in
// payloads; their consumer does. And it gives no method a meaning: the package
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
// its control and format characters (Unicode Cc and Cf, including NUL and the
// zero-width space) are dropped and the rest is folded to one case, over all
// of Unicode. So "Method", "param\u017f" and "method\u0000" are refused. All
// other members are tolerated and ignored.
//
// # Ids
//
// Ids are compared by their decoded value, so "a" equals "\u0061", and 7
// differs from "7". They are echoed byte for byte. Integers are exact at any
// length within the bound. A fraction or an exponent is refused.
//
// # Error codes
//
// The code of an error is read by its value: 1.0 and 1e2 are integers, as they
// are in JSON Schema, the language of the contract.
//
// # Making messages
//
// The Append functions write envelopes around payloads that the bridge generated
// itself.
//
// Every function is safe for concurrent use. No value of this package changes after it
// was returned.
package jsonrpc
