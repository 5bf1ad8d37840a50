// SPDX-License-Identifier: Apache-2.0

// Package native speaks outrigger.v1.ToolService with a backend that implements
// it: tools with progress, resources, prompts, completion, tasks, and a feed of
// changes. It is between bridge, which knows what callers may have, and
// internal/backend, which transports bytes.
//
// A [Client] makes the calls. A [Watcher] keeps a subscription to changes alive.
//
// Data from the backend is untrusted: it is decoded and validated against the
// rules of the contract before it is returned. A violation is an
// [*InvalidAnswerError]. Errors of the backend or the connection are the
// [*backend.Error] of internal/backend, unchanged. Requests are not validated
// here; edges validate their input, and the backend has its own rules.
//
// The package keeps no state about tools or callers, does not repeat a call that
// may have run, and forwards every member of a message unchanged.
//
// All of it is safe for concurrent use.
package native
