// SPDX-License-Identifier: Apache-2.0

// Package schema describes the ProtoJSON form of Protobuf messages in JSON Schema (2020-12), and validates documents
// against schemas.
//
// It sits between the catalog, which derives the schemas of each tool once ([Derive]), and all code that shows or
// enforces them ([Compile], [Validator]). It works on descriptors of any origin. Options are read from their raw bytes, so
// a reflected file needs no generated code: the rules of buf.validate ([FieldRules] has the bounds of a field, for code that
// enforces them), and annotations of other tools (OpenAPI, protoc-gen-validate, google.api), which are shown and never enforced.
// Annotations that cannot be read are returned as a problem beside what can be read: they must not cost a service its tools. The
// package makes no calls, loads nothing and retains nothing.
//
// # Two schemas
//
// A message has two schemas, for two readers with opposite needs. A validator has to accept every spelling that
// ProtoJSON accepts. A model should see one spelling, in few tokens.
//
// The canonical schema is for the validator: both names of a field, numbers in strings, enum numbers, nulls, both alphabets
// of base64. The advertised one shows one clean form to a client: an object at the root, without allOf, anyOf, oneOf or
// not, JSON names only, no unknown members. In an input, it also has the limits and examples that annotations of other
// tools state (annotated.go). It says each fact once. A list may show it with repeated
// messages in $defs (graph.go). The canonical schema accepts every input that the advertised one accepts. The
// transcoder accepts exactly what the canonical schema accepts.
//
// # Exceptions
//
// Exceptions to this agreement, each with its reason:
//   - The content of a google.protobuf.Any depends on its @type, which is known only at the time of the call.
//   - An integer written so that its exponent shifts more than 20 digits (0.00000000000000000000001e23) is refused by
//     protojson, but accepted by an advertised schema that has only a range.
//   - Two spellings of one map key ("1" and "+1") are two members in JSON and one key in Protobuf.
//   - A message left open to keep a schema within its bounds (Schema.Warnings) is checked only in transcoding.
//   - Formats carry the ranges of 64-bit integers in strings and of floating-point numbers. A Validator asserts those
//     formats; a validator that treats formats as annotations accepts numbers beyond the range. An advertised schema shows
//     no format of unsigned integers, so in strings and names of members it accepts numbers that have no more digits than
//     the largest of the type, and a larger value. It does not show the limits of 32-bit integers either, which few
//     arguments come near.
//   - Rules of protovalidate that no keyword can express (CEL, byte lengths of strings, well-known formats, patterns that RE2
//     and ECMA 262 read differently, rules of Timestamps and Durations) are in the description, and enforced by
//     protovalidate. The length of bytes is scaled to base64, exact to within two bytes. In strings, ranges
//     hold for plain decimal integers, not for "1e3" or "0.5". Rules about equality (const, in, not_in, unique) compare the JSON.
//   - An OUTPUT_ONLY field does not exist in an input, nor an INPUT_ONLY field in an output. A REQUIRED field must be
//     there. An unknown number of a closed enum is refused. ProtoJSON defines none of this; the transcoder enforces it.
//
// [ProfileStrict] shows both in the few keywords that the strict modes of all large model providers accept, see strict.go.
//
// # The passes of Derive
//
//  1. graph (graph.go): which messages contain themselves, how many fields hold each, and how far each is from the root.
//     The later passes need all three before the first byte is written.
//  2. write (derive.go): one attempt to write the schema. A deriver goes through the fields, the values (numbers.go, text.go)
//     and the oneofs, and builds a tree of objects. Rules become keywords if a keyword can express them, and sentences otherwise.
//  3. bounded (derive.go): the attempts in order of preference. The first result within the bounds is taken: inline, then
//     shared in $defs, then with less and less of what is far from the root. So Derive always ends with a schema.
//  4. encode: the tree as compact JSON, in declaration order. The same descriptor gives the same bytes, so that
//     fingerprints are stable.
//
// The passes run twice, for the canonical schema and for the advertised one. In ProfileStrict, strict.go takes the
// place of 2 and 3 for inputs, and follows them for outputs.
//
// A pattern of a schema is one of ECMA 262, with the flag u, whether it was derived or declared (pattern.go). What needs more than linear
// time is refused.
//
// A document is checked in three passes: [Inspect] (strict JSON, and bounds before anything is built), the compiled schema,
// and the reporter (report.go), which turns the tree of failures into one [Violation] for each problem to fix.
//
// # A worked example
//
// The message, which the example of this package runs:
//
//	message Order {
//	  string order_id = 1;
//	  int32 quantity = 2 [(buf.validate.field).int32 = {gte: 1, lte: 100}];
//	}
//
// newField comes first for each field. order_id may be absent. quantity has no presence, so an absent one is 0, and 0
// breaks gte: the field must be there. That is why it is required although the .proto file does not say so.
//
// The advertised schema of the input has the JSON names and one form for each:
//
//	{"type":"object",
//	 "properties":{
//	  "orderId":{"type":"string"},
//	  "quantity":{"type":"integer","minimum":1,"maximum":100}},
//	 "required":["quantity"],
//	 "additionalProperties":false}
//
// The canonical schema accepts more (the pattern is shortened here):
//
//	{"type":"object",
//	 "properties":{
//	  "orderId":{"type":["string","null"]},
//	  "order_id":{"$ref":"#/properties/orderId"},
//	  "quantity":{"type":["integer","string"],"minimum":1,"maximum":100,
//	   "pattern":"^(([1-9][0-9]{0,1}|100)|...)$","format":"int32","description":"From 1 to 100."}},
//	 "required":["quantity"],
//	 "additionalProperties":false,
//	 "dependentSchemas":{"orderId":{"properties":{"order_id":{"description":"wanted one name ...","not":{}}}}}}
//
// What differs, and why:
//   - null means absence, so orderId may be null. quantity is required, and null does not satisfy that.
//   - order_id is the second name of the field. It refers to the first, so that rules appear once. dependentSchemas
//     refuses a document with both names, as ProtoJSON does.
//   - An integer may come in a string. minimum and maximum apply only to JSON numbers, so the range is also in the
//     pattern. The part omitted here accepts the other spellings of a JSON number, such as 1e2.
//
// In the canonical output schema both fields are required: the transcoder always writes a field that has no presence. The
// advertised one requires no field, because a caller may ask for some of them and a budget may leave some out.
//
// A document with "orderId", "order_id", "quantity": 101 and "quantiy": 3 then gets three violations, sorted by path:
//
//	/order_id  not                   wanted one name of the field, found "order_id" beside "orderId"
//	/quantity  maximum               wanted at most 100, found 101
//	/quantiy   additionalProperties  wanted a known field, found unknown field "quantiy"; did you mean "quantity"?
//
// # Bounds
//
//	bound                   default   unit
//	Options.MaxDepth        16        messages inlined in one another
//	Options.MaxSchemas      20,000    subschemas of one schema
//	Options.MaxBytes        1 MiB     JSON of one schema
//	Options.InlineBytes     16 KiB    advertised schema that is written without sharing
//	description             1,024     characters
//	patterns of a resource  3         in one description
//	examples                2         of one field or message
//	one example             1,024     bytes
//	Bounds.MaxDepth         64        open objects and arrays in a document
//	Bounds.MaxNumberLength  1,024     bytes of one number
//	Bounds.MaxValues        262,144   values in a document
//	Bounds.MaxViolations    32        violations reported
//	schema to compile       512       open objects and arrays
//	                        2^20      values
//
// # Errors
//
//	errNoDescriptor   Derive got no descriptor. One that is only a name is an error without a type
//	ErrInvalidSchema  wrapped by every error of Compile and Prepare: the schema is invalid
//
// An invalid document is not an error: [Validator.Validate] and [Inspect] return violations. An error of Validate means that
// the check itself failed. What Derive cannot express is not an error either, but one of [Schema.Warnings].
//
// Everything is safe for concurrent use; a deriver belongs to one call of Derive.
package schema
