// SPDX-License-Identifier: Apache-2.0

// Package native speaks outrigger.v1.ToolService with a backend that serves it
// itself: tools with progress, resources, prompts, completion, tasks, and a feed
// of what changes. It stands between bridge, which knows what callers may have,
// and internal/backend, which knows how bytes travel.
//
// A [Client] makes the calls. A [Watcher] keeps a subscription to changes alive.
//
// Whatever the backend sends is untrusted: it is decoded, checked against the
// rules of the contract, and only then handed on. What breaks them is an
// [*InvalidAnswerError]. What the backend or the connection says is the
// [*backend.Error] of internal/backend, unchanged. What is sent is not checked
// here; edges check what comes in, and the backend has rules of its own.
//
// The package keeps no state about tools or callers, repeats no call that may
// have run, and passes on every member of a message as it came.
//
// All of it is safe for concurrent use.
package native
