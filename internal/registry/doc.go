// SPDX-License-Identifier: Apache-2.0

// Package registry hands out compiled JSON Schemas by what they describe: the
// messages of the canonical dialect, the message form of a tool call, and the
// input and output of each tool.
//
// It stands beside the pipeline, over the catalog, for everything that checks a
// document against a published schema: recorded calls, registrations, tests of
// the contract. A call itself does not pass through here. Its envelope is
// checked by jsonrpc.Parse and its arguments by the transcoder, which are many
// times faster; tests of this package hold the parser to the schemas.
//
// The schemas of messages are files under testdata/schemas, compiled when they
// are first asked for. Those of a tool are compiled when they are first asked
// for, kept under the tool's fingerprint, and dropped when the fingerprint
// changes, when the tool is gone, and when there are too many.
//
// The package loads nothing from outside, answers no call and knows no error
// vocabulary: its errors are ErrUnknownTool, *InvalidError and *jsonrpc.Fault,
// and what wraps schema.ErrInvalidSchema.
//
// Everything is safe for concurrent use.
package registry
