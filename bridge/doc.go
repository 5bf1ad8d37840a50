// SPDX-License-Identifier: Apache-2.0

// Package bridge is the pipeline that runs every request, whatever protocol it came in.
//
// Programs that embed a sidecar use the package outrigger at the module's root. This
// one is for code inside the module that adds an edge (a protocol for callers): its
// signatures have types of internal packages, which other modules cannot name.
//
// # A tour
//
// [New] joins three partners to a [Bridge]: the source of the tools ([Catalogs]), the
// backend ([Upstream]) and the table of requests in flight ([correlate.Table]).
//
// An edge turns what it reads into a [Request]: an operation ([Op]) and, for a call, a
// tool and its arguments as bytes. [Bridge.Handle] runs it and returns a [Response]. A
// call passes the steps that are listed in call.go: find the tool, ask the policy, wait
// for a slot, check the arguments, call the backend, check the result. Edges that read
// many requests from one stream use [Bridge.Begin] in reading order and [Flight.Run]
// concurrently. What an edge refuses before it is a Request is counted with
// [Bridge.Refused].
//
// A Response has a result ([Response.Result] for the answer of a plain RPC,
// [Response.Outcome] for a question, a task or content, [Response.Message] for other
// operations) or an error. Errors are canonical ([errmap.Error]); each edge shows them in
// the vocabulary of its callers.
//
// Calls that take long report meanwhile: events go to [Request.Events], questions to the
// client to [Request.AskClient], changes of what is offered to [Request.Changes].
//
// # What it does not know
//
// The package writes no JSON of its own, no message of JSON-RPC or MCP and no header of theirs, and
// never asks for a protocol version. The package internal/dialect reads and writes those
// in front of it. Where an edge leaves parts of a message unread, the pipeline asks the
// [Envelope] for them. It opens no socket and starts no goroutine.
//
// A Bridge is safe for concurrent use. A Request belongs to one call of Handle or Begin,
// and does not change after that.
package bridge
