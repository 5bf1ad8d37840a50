// SPDX-License-Identifier: Apache-2.0

// Package task runs tool calls as tasks of the sidecar (MCP extension
// io.modelcontextprotocol/tasks): a long call returns a task, and its caller
// polls for the result later or cancels it.
// Tasks of a native backend and long-running operations are tasks for callers too:
// [OpenRef] tells them apart, and an [Operation] follows one of the latter.
//
// [Manager] runs the work and serves the tasks; [Store] keeps their records,
// [Memory] those of one process. The record has everything that replicas
// share, and a manager learns of changes only from its store. So with a store that
// spans processes a task that is cancelled at one replica is cancelled where it runs.
//
// Work runs in one process, the owner of its record. If the store spans processes, it
// implements [Replicas] and knows which owners are alive. When an owner is not, another
// process takes its tasks over, each by one update of the record, which only one of them
// can make: it runs the work again if it may ([Spec.Again]), and else ends the task as
// failed with an unknown outcome. Who owned the record before cannot change it any more,
// and its work ends with [ErrTaken].
//
// A task begins as working, and ends as completed, failed or cancelled. A finished task
// does not change any more. It asks its caller nothing.
//
// Unknown ids, expired ids and ids of other callers are all [ErrNotFound]. The
// package knows no dialect and does not validate results. It logs
// nothing; [Options] has hooks for events. Everything is safe for concurrent use.
package task
