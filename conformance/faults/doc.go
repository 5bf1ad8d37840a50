// SPDX-License-Identifier: Apache-2.0

// Package faults breaks the way between the sidecar and its backend, and the
// backend itself, while callers of all edges are at work, and then accounts for
// every call.
//
// A [Rig] is a backend that is its own process, a toxiproxy before it, the
// sidecar's binary before that, and a load of callers. A [Fault] is one thing
// that goes wrong: latency, a reset in mid-call, a connection that is dead on
// one side, kill -9, SIGSTOP. There is one oracle for all of them, [Audit]: the
// backend writes down each execution as it begins, the callers each answer, and
// the two books must agree. A caller that stayed is answered exactly once with
// its own data; nothing is executed twice unless its tool is idempotent; a call
// that is said not to have reached the backend has not; what is unknown is a
// TRANSPORT_ERROR. Afterwards the sidecar has nothing in flight and no goroutine
// more than before.
//
// The short form runs with the tests of the module, the full one by `make
// fault-test`.
package faults
