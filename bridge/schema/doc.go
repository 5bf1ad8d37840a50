// SPDX-License-Identifier: Apache-2.0

// Package schema says in JSON Schema (2020-12) what a Protobuf message looks like as ProtoJSON, and checks documents
// against schemas.
//
// It stands between the catalog, which derives the schemas of each tool once (Derive), and everything that shows or
// enforces them (Compile, Validator). It works on descriptors, of any origin: options are read from their raw bytes, so
// a reflected file needs no generated code. It calls nothing, loads nothing and keeps nothing.
//
// A message has two schemas. The canonical one admits what ProtoJSON admits: both names of a field, numbers in strings,
// enum numbers, nulls, both alphabets of base64. The advertised one shows one clean form to a client: an object at the
// root, without allOf, anyOf, oneOf or not, JSON names only, no unknown members. What the advertised schema of an input
// admits, the canonical one admits; what the canonical one admits, the transcoder admits, and the reverse.
//
// The exceptions, each with its reason:
//   - The content of a google.protobuf.Any depends on its @type, which is only known when the call is made.
//   - An integer written so that its exponent shifts more than 20 digits (0.00000000000000000000001e23) is refused by
//     protojson, and admitted by an advertised schema that only has a range.
//   - Two spellings of one map key ("1" and "+1") are two members in JSON and one key in Protobuf.
//   - A message that is left open to keep a schema within its bounds (Schema.Warnings) is only checked in transcoding.
//   - Formats carry the ranges of 64-bit integers in strings and of floating-point numbers. A Validator asserts those
//     formats; a validator that takes formats for annotations admits numbers beyond the range. An advertised schema shows
//     no format that ajv-formats does not know, so it admits twenty-digit numbers above the largest uint64.
//   - Rules of protovalidate that no keyword can say (CEL, byte lengths of strings, well-known formats, patterns that RE2
//     and ECMA 262 read differently, rules of Timestamps and Durations) are in the description, and enforced by
//     protovalidate. The length of bytes is scaled to base64, exact to within two bytes. In strings, ranges
//     hold for plain decimal integers, not for "1e3" or "0.5". Rules about equality (const, in, not_in, unique) compare the JSON.
//   - An OUTPUT_ONLY field does not exist in an input, nor an INPUT_ONLY field in an output. A REQUIRED field must be
//     there. An unknown number of a closed enum is refused. ProtoJSON knows none of this; the transcoder does.
//
// ProfileStrict shows inputs in the few keywords that the strict modes of all large model providers accept, see strict.go.
//
// Derive, Compile and Inspect are safe for concurrent use, as is a Validator.
package schema
