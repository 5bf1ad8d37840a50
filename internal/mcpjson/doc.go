// SPDX-License-Identifier: Apache-2.0

// Package mcpjson writes messages of outrigger.v1 as MCP's JSON and reads MCP's
// JSON into them. It stands between the bridge, which decides, and a backend
// that speaks the tool API: pure translation, no I/O, no policy, no state.
//
// # Plans
//
// Each message has a plan, compiled once from its descriptor, the rules of the
// contract and the table of exceptions, and used for both directions. A field that is
// added to a message that has a plan is a member of MCP's object, named in camel case
// and within its rules. Where MCP has no such member, or another one, exceptions.go
// says so. What no plan can say is written by hand, beside it.
//
// # Writing
//
// Every Append function appends to dst and returns the extended buffer. What it
// appends is compact JSON without line breaks, whose members stand in a fixed
// order, so that equal messages give equal bytes. Some append one value, some
// only the members of an object that the caller opened and goes on with; their
// comments say which. Strings go through jsontext.AppendString: nothing is
// escaped that JSON does not ask for.
//
// A message comes from a backend and is not trusted. What MCP's schema requires
// and the message lacks, what JSON cannot say (a number that is not finite), and
// free-form text that is no strict JSON of the wanted kind is an *InvalidError,
// and dst comes back as it was. Addresses, media types and names are passed on
// as they are. Messages for people pass redaction before they come here.
//
// # Free-form values
//
// A payload has two forms, a Struct or its JSON text; see FreeForm. The text is
// checked and copied, never decoded, so that numbers and the order of members
// survive.
//
// # How a tool's result shows
//
// MCP has no member for the status and the explanation of a ToolResult.
// AppendResultMeta puts them, and the error, under ResultMetaKey into _meta,
// always. Models rarely see _meta, so where the result has no content of its own,
// AppendToolResult also says them in text: one block with the data as JSON, so
// that it can be parsed alone, and one with the words: the error's message, the
// explanation, or where there is neither a sentence for a status other than
// success. A failure has no data, so it is one block; a bare success has one block
// or none. Content that the backend gave is left as it is.
//
// # Revisions
//
// The revisions of MCP differ in few places, all of them in revision.go. Members
// that a revision does not know (titles, icons, _meta of a block) are written all
// the same: clients tolerate them.
//
//   - Structured content that is no object is written bare in 2026-07-28, as
//     {"value": ...} in 2025-11-25 and 2025-06-18, and not at all in 2025-03-26.
//     That revision gets the data as a text block, once.
//   - An output schema whose root is not of type object is hidden from the legacy
//     revisions, and every output schema from 2025-03-26: wrapping a schema would
//     break its references. Boolean schemas of properties at the root become
//     objects of the same meaning there.
//   - A resource link becomes text in 2025-03-26.
//   - A question that a revision has no words for is an *UnsupportedError.
//
// # Reading
//
// The Read functions take one JSON value that internal/jsonrpc checked (other bytes
// do no harm). Members that MCP does not know are ignored, members that it knows
// must have the right type, and everything is within the bounds of the contract,
// so that a backend that validates accepts what was read. The error is an
// *InvalidError whose path is a JSON Pointer relative to the value. Byte fields of
// what is returned alias the value.
//
// The answers of a client to questions are different: one that has no known shape
// is kept as its bytes, because only the backend can say what to do about it.
//
// All functions are safe for concurrent use and change none of their arguments.
package mcpjson
