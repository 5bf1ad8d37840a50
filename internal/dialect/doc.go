// SPDX-License-Identifier: Apache-2.0

// Package dialect reads and writes JSON-RPC messages in front of the pipeline.
//
// [Handler.HandleMessage] reads one envelope in its [Dialect] into a
// [bridge.Request], runs it, and renders the [bridge.Response] as a [Reply]. There
// are three dialects: the canonical one, the stateless revision of MCP, and the
// revisions that start with initialize. Each has its differences in one era_*.go
// file: a table of methods, each with a function that reads params and one that
// writes a result.
//
// A request takes these steps (message.go). The first step that rejects it writes
// the reply:
//
//  1. admit: what every request of the era must have, such as its revision.
//  2. The method is looked up in the era's table. The row has the operation.
//  3. matchHeaders: HTTP headers that repeat params must agree with them.
//  4. read: the params become a bridge.Request.
//  5. bridge.Begin registers the request, in the order in which the edge read it.
//  6. Flight.Run runs it, on a goroutine of the edge's choice.
//  7. write renders the result, or fail the error, inside the envelope.
//
// No part of the reply is built before step 7: a request may run for days, and holds
// no buffer meanwhile.
//
// Errors are errmap.Error values until the last step, where the era's fail renders
// them. A panic in a step becomes INTERNAL_ERROR and ends only that request.
//
// To add a method of MCP, write both functions and add a row to the tables of the
// eras that have it. A row refers to one of the operations of package bridge.
package dialect
