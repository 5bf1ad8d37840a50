// SPDX-License-Identifier: Apache-2.0

// Package transcode turns the JSON of a tool's arguments into the wire bytes of a Protobuf message, and the wire bytes
// of an answer into JSON.
//
// It stands between the bridge, which knows JSON, and the backend, which knows wire bytes; only bytes pass, in both
// directions, and no message type or map leaves the package. What a message looks like is compiled once, when the
// catalog is built (New, Transcoder.Compile), and shared by all calls: a Message is immutable and safe for concurrent
// use.
//
// A plan, compiled for each message when a call first needs it and shared by all that hold the message, goes from JSON to
// wire bytes and back in one pass, without a message in between and without memory but for the result. It only knows
// right from wrong. What it refuses goes to the general engine (protojson, messages without generated code, schemas),
// which judges again and explains; so a document that is wrong, and an answer that is unusual (a field in several places,
// a map key twice), cost more than others and mean the same. Simple rules are checked on the wire bytes, and protovalidate
// is asked where one is broken or is not simple.
//
// The JSON is ProtoJSON, read strictly: an unknown field, a field given twice (also under its two names), a number out
// of range, an OUTPUT_ONLY field or a missing required one is an *InputError that lists everything found, each with the
// JSON Pointer of the value. After that protovalidate's rules run. Bounds on depth, on the length of numbers and on the
// number of values hold before anything is built from the document.
//
// Where this is stricter than ProtoJSON as protojson reads it:
//   - one level of nesting counts for each object or array, at most Options.MaxDepth of them;
//   - a number that no double can hold, or of more than Options.MaxNumberLength bytes, is refused wherever it stands;
//   - a number is one of JSON (RFC 8259, section 6): an exponent without a digit, as in 1e, is refused;
//   - an unknown number of a closed enum is refused: the backend would not see it;
//   - google.api.field_behavior holds: REQUIRED fields must be there, OUTPUT_ONLY fields must not;
//   - extensions are only known where Options.Resolver lists them.
//
// Where it takes more: a root whose JSON is not an object (a Timestamp, a wrapper, ...) may also come as
// {"value": ...}, since the arguments of a tool are always an object.
//
// What ToJSON writes is compact and deterministic, with the default values of fields that have no presence, so that
// the answer has every member that the output schema requires. INPUT_ONLY fields are left out.
package transcode
