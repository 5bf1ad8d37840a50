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
// To add a method of MCP, write both functions and add a row to the tables of the
// eras that have it. A row names one of the operations of package bridge.
package dialect
