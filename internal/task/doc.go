// SPDX-License-Identifier: Apache-2.0

// Package task runs tool calls as tasks of the sidecar's own (MCP extension
// io.modelcontextprotocol/tasks): a call that takes long is answered with a task,
// and its caller looks for the result later, answers questions of the work, or
// cancels it. A task that a backend has itself is not seen here.
//
// [Manager] runs the work and answers for the tasks; [Store] keeps their records,
// [Memory] those of one process. All that replicas would have to share stands in
// the record, and a manager learns of changes from its store alone, so that a
// store which spans processes can stand behind the same interface: a task that is
// cancelled or answered at one replica is then cancelled and answered where it
// runs. What cannot be shared is the work itself: it ends with its process, and a
// task without work is forgotten when its record expires.
//
// A task begins as working, changes between working and input_required, and ends
// as completed, failed or cancelled. What ended does not change any more.
//
//	working ⇄ input_required → completed | failed | cancelled
//
// Unknown ids, forgotten ones and those of other callers are [ErrNotFound], one
// like the other. The package knows no dialect and checks neither results nor
// answers. It logs nothing; [Options] has hooks for what should be seen.
// Everything is safe for concurrent use.
package task
