// SPDX-License-Identifier: Apache-2.0

// Package dialect reads and writes JSON-RPC messages in front of the pipeline.
//
// [Handler.HandleMessage] reads one envelope in its [Dialect] into a
// [bridge.Request], has the bridge run it, and renders the [bridge.Response] as a
// [Reply]. There are three dialects: the canonical one, the stateless revision of
// MCP, and the revisions that open with initialize. What differs between them is
// in one era_*.go file each: a table of methods, each with a function that reads
// params and one that writes a result.
//
// A request takes these steps (message.go), and the first that refuses writes the
// reply:
//
//  1. admit: what every request of the era must carry, such as its revision.
//  2. The method is looked up in the era's table. The row names the operation.
//  3. matchHeaders: HTTP headers that repeat params have to agree with them.
//  4. read: the params become a bridge.Request.
//  5. bridge.Begin registers the request, in the order in which the edge read it.
//  6. Flight.Run runs it, on a goroutine of the edge's choice.
//  7. write renders the result, or fail the error, and the envelope goes around it.
//
// Nothing of the reply is built before step 7: a request may run for days, and holds
// no buffer meanwhile.
//
// Errors are values of errmap.Error up to the last step, where the era's fail gives
// them their form. A panic in a step becomes INTERNAL_ERROR and ends that request
// alone.
//
// To add a method of MCP, write both functions and add a row to the tables of the
// eras that have it. A row names one of the operations of package bridge.
package dialect
