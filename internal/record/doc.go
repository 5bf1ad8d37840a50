// SPDX-License-Identifier: Apache-2.0

// Package record writes run records: one JSON line for each envelope at a JSON-RPC
// edge, in arrival order, in a separate directory for each run. The bridge reports the
// arrival of an envelope ([Run.Begin]) and its outcome ([Entry.End]), and never waits.
//
// A Run is in DIR/mcp_server/envelope_validation/<UTC start>-<run id>/, in
// events.jsonl. A file that has reached its size limit continues as events.1.jsonl,
// events.2.jsonl and so on; the highest number is the newest. The symbolic link .latest
// next to the run directories points to the newest run.
//
// Lines are in arrival order. A line whose outcome is known early is held back until
// those before it are known, limited by number, size and time. Beyond these limits the
// lines behind a long call are written, and the line of the long call is written late.
//
// Disk errors never affect callers: lines wait in a bounded queue, a failed write is
// retried, and lines that do not fit are dropped and counted. Arguments and results are
// recorded only if [Options] request it, and then without the values of fields with
// secret names.
//
// The package knows no dialects and no tools, and parses no envelope. All methods of a
// *Run and of an *Entry are safe for concurrent use and do nothing on nil, so a nil
// *Run is a disabled recorder.
package record
