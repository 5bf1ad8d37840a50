// SPDX-License-Identifier: Apache-2.0

// Package contracttest checks documents against the published JSON Schemas: the messages of the canonical dialect, the message
// form of a tool call, and recorded calls of tools. It is for tests. Calls of a sidecar do not pass through it:
// jsonrpc.Parse checks their envelope and the transcoder their arguments, which is many times faster; tests of this package
// compare the parser with the schemas.
//
// The factories (NewRequest, NewNotification, NewSuccess, NewError) make messages that every reader accepts, and a Generator
// makes ids that never repeat: the contract asks for both, and no call of a sidecar needs either.
//
// The schemas of messages are files under testdata/schemas, compiled on first use. Those of a tool come from its catalog.
//
// Everything is safe for concurrent use.
package contracttest
