// SPDX-License-Identifier: Apache-2.0

// Package corpus proves schema and transcode on every message of public APIs, with protojson as the judge.
//
// For each message, in both directions and in every profile:
//
//   - a schema is derived within its bounds, and jsonschema compiles it;
//   - what protojson writes for random messages, the schemas admit, and ToWire turns into bytes that decode to an equal
//     message; what ToJSON writes is the JSON value that protojson writes, and the output schemas admit it;
//   - a mutated document is taken by the transcoder if and only if protojson takes it, and by the canonical schema if
//     and only if the transcoder takes it; what the advertised schema admits, the canonical one admits.
//
// Each exception to these is a named reason in excuse.go, found by its own reader rather than taken from what the
// code under test says, and each excused document is counted.
//
// It is its own module, so that users of the project do not download the corpus. Run without an
// environment it takes a sample; with OUTRIGGER_FULL=1 everything.
package corpus
