// SPDX-License-Identifier: Apache-2.0

// Package jsontext handles JSON as text: the strict grammar, strings and their
// escapes, and where values begin and end. It imports none of our packages, and
// all of them may import it. It knows no message, no schema and no descriptor,
// and it decodes nothing but strings.
//
// There are three kinds of functions:
//
//   - [Check], [Walk] and [Outline] make the one strict pass over a document. They
//     refuse everything that two readers could interpret differently: invalid
//     UTF-8, anything RFC 8259 forbids, duplicate names (compared after their
//     escapes are decoded), lone surrogates, text after the value, and excessive
//     depth. All three share one scanner. Walk reports what it reads to a
//     [Visitor]. Outline records the positions of the members of an object and of
//     one of its members.
//   - [Lookup], [Members], [Fields], [Elements], [Text] and the Skip functions
//     inspect a value that was checked. On other bytes their result is
//     meaningless, but they stay within the bytes and do not panic.
//   - [AppendString], [AppendText], [AppendValid] and [Compact] write. A string
//     has one spelling: the shortest one, as in RFC 8785.
//
// A reader that decodes while it checks, such as the transcoder's, uses
// [ReadString]: the same grammar of strings, one string at a time.
//
// Functions are safe for concurrent use, and retain none of their arguments.
package jsontext
