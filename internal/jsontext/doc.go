// SPDX-License-Identifier: Apache-2.0

// Package jsontext knows JSON as text: the strict grammar, strings and their
// escapes, and where values begin and end. It imports none of our packages, and
// all of them may import it. It knows no message, no schema and no descriptor,
// and it decodes nothing but strings.
//
// There are three kinds of functions:
//
//   - [Check], [Walk] and [Outline] make the one strict pass over a document. They
//     refuse everything that could let two readers disagree: bytes that are not
//     UTF-8, what RFC 8259 does not allow, duplicate names (compared after their
//     escapes are decoded), lone surrogates, text behind the value, and depth. All
//     three are one scanner. Walk tells a [Visitor] what it passes; Outline notes
//     where the members of an object and of one of its members are.
//   - [Lookup], [Members], [Fields], [Elements], [Text] and the functions that skip
//     look into a value that was checked. On other bytes their answer means
//     nothing, but they stay within the bytes and do not panic.
//   - [AppendString], [AppendText], [AppendValid] and [Compact] write. There is one
//     spelling of a string: the shortest one, as RFC 8785 has it.
//
// A reader that decodes while it checks, such as the transcoder's, has
// [ReadString]: the same grammar of strings, one string at a time.
//
// Functions are safe for concurrent use, and keep nothing of their arguments.
package jsontext
