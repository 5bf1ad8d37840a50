// SPDX-License-Identifier: Apache-2.0

// Package transcode turns the JSON of a tool's arguments into the wire bytes of a Protobuf message, and the wire bytes
// of a response into JSON.
//
// It sits between the bridge, which knows JSON, and the backend, which knows wire bytes. Only bytes cross its
// boundary: no message type and no map leaves the package. [New] makes a [Transcoder] for each snapshot of the catalog,
// [Transcoder.Compile] a [Message] for each type, and [Message.ToWire] and [Message.ToJSON] run for each call.
//
// # Two engines
//
// A document is read by one of two engines.
//
// The plan is the fast one. It is compiled from the descriptor once for each message type. It converts JSON to wire
// bytes and back in one pass, builds no message in between, and allocates only the result. It either produces the
// result or refuses, without a reason.
//
// The general engine makes the final decision. It uses protojson, messages without generated code, and the canonical
// schema of package schema. It runs if the plan refuses, checks the document again, and explains the result: a JSON
// Pointer, what was expected and what was found.
//
// All code of the plan therefore follows one rule. A refusal costs time and never changes a result, so the plan may
// refuse anything that is rare or hard to get right. What the plan accepts must be correct: the same message, the
// same JSON to the byte, the same verdict on rules. Tests run both engines and the schema on every document and compare them
// (oracle_test.go).
//
// # The passes
//
// ToWire:
//
//  1. read (read.go): the plan turns the document into wire bytes.
//  2. Unquote (unquote.go), only with Options.QuotedObjects, and only if 1 refused: objects in strings are decoded,
//     maps that are lists of entries become objects, and 1 is tried once more.
//  3. keeps (check.go): simple rules of protovalidate are checked on the wire bytes. If this pass cannot prove that all
//     of them hold, the bytes are decoded and protovalidate is asked (rules.go).
//  4. generalToWire (plan.go), only if 1 and 2 refused: strict inspection, protojson, the schema for what protojson
//     does not check, protovalidate.
//
// ToJSON:
//
//  1. write (write.go): the plan turns the wire bytes into JSON.
//  2. keeps, then protovalidate where needed, as above.
//  3. decode and appendMessage (message.go), only if 1 refused: the wire decoder, protovalidate, protojson, and prune
//     (prune.go), which removes INPUT_ONLY fields. If protojson has no form for a value, the writer of the plan runs again
//     and writes the nearest form.
//
// # A worked example
//
// The message, which the example of this package runs:
//
//	message Order {
//	  string order_id = 1;
//	  int32 quantity = 2 [(buf.validate.field).int32 = {gte: 1, lte: 100}];
//	  repeated Line lines = 3;
//	}
//	message Line {
//	  string sku = 1;
//	  int64 cents = 2;
//	}
//
// prepare (plan.go) makes a slot for each field of Order, with everything that does not depend on the document:
//
//	bit   read as              tag   written as    written where absent
//	0     orderId, order_id    0a    "orderId":    "orderId":""
//	1     quantity             10    "quantity":   "quantity":0
//	2     lines                1a    "lines":      "lines":[]
//
// read gets {"orderId": "A-7", "quantity": 2, "lines": [{"sku": "x", "cents": "990"}]}:
//
//	token          output             what happens
//	"orderId"                         the guess: slot 0 is compared with the bytes of the document, no hash is needed
//	"A-7"          0a 03 41 2d 37     tag, length, text; bit 0 is set, so that a second orderId is refused
//	"quantity" 2   10 02              a short integer, plain digits; bit 1
//	"lines" [ {    1a 00              tag, and one byte kept for a length that is not known yet
//	"sku" "x"      0a 01 78           the plan of Line, with its own bits
//	"cents" "990"  10 de 07           64-bit integers may come in a string
//	} ] }          1a 06 ...          the kept byte becomes 6; a length above 127 would move the content up
//
// The result is 0a 03 41 2d 37 10 02 1a 06 0a 01 78 10 de 07. keeps walks over it, finds field 2 with the value 2 between
// its two bounds, and returns true: protovalidate does not run. With "quantity": 101 it returns false. Then the bytes are
// decoded, protovalidate words the violation, and ToWire returns an *InputError at /quantity. With "quantity": "many"
// read refuses, and generalToWire returns an *InputError with Structural set.
//
// write gets an answer of 10 02, a quantity alone:
//
//	bytes    output                what happens
//	         {"orderId":"",        field 2 is next: the absent text of the slots before it is copied
//	10 02    "quantity":2,
//	end      "lines":[],           the absent text of the slots behind the last one
//	         }                     replaces the last comma
//
// The result is {"orderId":"","quantity":2,"lines":[]}.
//
// # What is strict
//
// The JSON is ProtoJSON, read strictly: an unknown field, a field given twice (also under its two names), a number out
// of range, an OUTPUT_ONLY field or a missing required one is an *InputError that lists everything found, each with the
// JSON Pointer of the value. After that protovalidate's rules run.
//
// It is stricter than protojson in these cases:
//   - one level of nesting counts for each object or array, at most Options.MaxDepth of them;
//   - a number that no double can hold, or of more than Options.MaxNumberLength bytes, is refused anywhere in the document;
//   - a number follows JSON's grammar (RFC 8259, section 6): an exponent without a digit, as in 1e, is refused;
//   - an unknown number of a closed enum is refused: the backend would not see it;
//   - google.api.field_behavior holds: REQUIRED fields must be present, OUTPUT_ONLY fields must be absent;
//   - extensions are known only if Options.Resolver lists them.
//
// It is more lenient in one case: a root whose JSON is not an object (a Timestamp, a wrapper, ...) may also come as
// {"value": ...}, since the arguments of a tool are always an object.
//
// What ToJSON writes is compact and deterministic, with the default values of fields that have no presence, so that
// the result has every member that the output schema requires. INPUT_ONLY fields are left out.
//
// # Bounds
//
// A document or an answer beyond its bounds is refused before a message is built from it.
//
//	bound                     default      unit
//	Options.MaxDepth          64           open objects and arrays in a document
//	Options.MaxNumberLength   1,024        bytes of one number
//	exponent of a number      2,000        powers of ten, either sign
//	Options.MaxValues         262,144      values in a document, members and elements alike
//	Options.MaxViolations     32           violations in one error
//	depth of an answer        1,000        messages in one another, map entries included
//	size read by a plan       2^31-1       bytes of an answer; the general engine reads larger ones
//	unknown types noted       16           type URLs of one answer
//
// # Concurrency
//
// Transcoder and Message are safe for concurrent use. Compiled state is written once, when a call first needs it
// (sync.Once, or an atomic pointer that two calls may set to equal values). After that no call waits for another. The
// buffers of a call come from a pool and return to it before the call ends, so no buffer of the package is visible
// outside. Arguments are not retained.
//
// # Errors
//
//	*InputError         the document is not a message of the type (Structural), or a rule is broken. From ToJSON: the answer
//	                    breaks a rule
//	*OutputError        the wire bytes are not an encoding of the message, or are an odd one of the few that no plan can write
//	*ruleError          a rule does not compile (Compile), or fails when it runs (ToWire, ToJSON, CheckWire)
//	errNoDescriptor     Compile got no descriptor, or only its name
//
// All of them work with errors.As or errors.Is. The first two concern the data, the others the
// service's descriptors or this package. Any other error is an unexpected failure, such as a schema that cannot be derived.
package transcode
