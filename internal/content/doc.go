// SPDX-License-Identifier: Apache-2.0

// Package content is what a result holds on its way between a backend and a client: it writes messages of outrigger.v1 as MCP's
// JSON and reads MCP's JSON into them, selects and cuts what a caller wants of a result ([Mask], [AppendCut], [Reduction]), and
// keeps documents that are too large for one result so that their callers can read them in parts ([Store]). The pipeline decides
// which of these a call needs.
//
// # Messages
//
// Their translation sits between the bridge, which makes the decisions, and a backend that
// implements the tool API: no I/O, no policy, no state.
//
// # Plans
//
// Each message has a plan, compiled once from its descriptor, the rules of the
// contract and the table of exceptions, and used for both directions. A field added
// to a message with a plan becomes a member of MCP's object, named in camel case
// and within its rules. If MCP has no such member, or a different one, the table of exceptions in special.go
// says so. What a plan cannot express is written by hand, next to it.
//
// # Writing
//
// Every Append function appends to dst and returns the extended buffer. It appends
// compact JSON without line breaks and with members in a fixed order, so that equal
// messages give equal bytes. Some functions append one value. Others append only the
// members of an object that the caller opened and continues; their comments say so.
// Strings go through jsontext.AppendString: only what JSON requires is escaped.
//
// A message comes from a backend and is not trusted. It is an *InvalidError if the
// message lacks what MCP's schema requires, holds what JSON cannot express (a number
// that is not finite), or has free-form text that is not strict JSON of the expected
// kind. dst is then returned unchanged. Addresses, media types and names are passed
// through unchanged. Messages for people pass redaction before they reach this package.
//
// # Free-form values
//
// A payload has two forms, a Struct or its JSON text; see FreeForm. The text is
// checked and copied, never decoded, so that numbers and the order of members
// survive.
//
// # How a tool's result is represented
//
// MCP has no member for the status and the explanation of a ToolResult.
// AppendResultMeta always puts them, and the error, into _meta, under ResultMetaKey.
// Models rarely see _meta. If the result has no content, AppendToolResult therefore
// also writes them as text: one block with the data as JSON, so that it can be
// parsed alone, and one with the words. The words are the error's message or the
// explanation. If there is neither, they are a sentence for a status other than
// success. A failure has no data, so it is one block; a bare success has one block
// or none. Content from the backend is left unchanged.
//
// # Revisions
//
// The revisions of MCP differ in few places, all of them behind [Revision]. Members
// that a revision does not know (titles, icons, _meta of a block) are still written:
// clients tolerate them.
//
//   - Structured content that is not an object is written bare in 2026-07-28, as
//     {"value": ...} in 2025-11-25 and 2025-06-18, and not at all in 2025-03-26.
//     That revision gets the data as a text block, once.
//   - An output schema whose root is not of type object is hidden from the legacy
//     revisions, and every output schema from 2025-03-26: wrapping a schema would
//     break its references. There, boolean schemas of properties at the root become
//     equivalent objects.
//   - A resource link becomes text in 2025-03-26.
//   - A question that a revision cannot express is an *UnsupportedError.
//
// # Reading
//
// The Read functions take one JSON value that internal/jsonrpc checked (other bytes
// do no harm). Members that MCP does not define are ignored. Members that it defines
// must have the right type, and everything must be within the bounds of the contract,
// so that a backend that validates accepts the result. The error is an
// *InvalidError whose path is a JSON Pointer relative to the value. Byte fields of
// the result alias the value.
//
// A client's answers to questions are different: one of unknown shape is kept as its
// bytes, because only the backend can decide how to handle it.
//
// All functions are safe for concurrent use and modify none of their arguments.
package content
