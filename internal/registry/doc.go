// SPDX-License-Identifier: Apache-2.0

// Package registry provides compiled JSON Schemas: for the messages of the
// canonical dialect, the message form of a tool call, and the input and output
// of each tool.
//
// It is for code that validates documents against a published schema: recorded
// calls, registrations, contract tests. Calls do not pass through it.
// jsonrpc.Parse checks their envelope and the transcoder their arguments, which
// is many times faster; tests of this package compare the parser with the
// schemas.
//
// The schemas of messages are files under testdata/schemas, compiled on first
// use. Those of a tool are compiled on first use and cached by the tool's
// fingerprint. They are dropped when the fingerprint changes, when the tool is
// removed, and when the registry is full.
//
// The package loads nothing from outside, answers no call and knows no error
// vocabulary. Its errors are ErrUnknownTool, *InvalidError and *jsonrpc.Fault,
// and errors that wrap schema.ErrInvalidSchema.
//
// Everything is safe for concurrent use.
package registry
