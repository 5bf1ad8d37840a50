// SPDX-License-Identifier: Apache-2.0

// Package record writes run records: one JSON line for each envelope that came
// in at a JSON-RPC edge, in arrival order, in a folder of its own for each run.
// It stands beside the flow: the bridge tells it when an envelope arrives
// ([Run.Begin]) and what became of it ([Entry.End]), and never waits for it.
//
// A Run lives in DIR/mcp_server/envelope_validation/<UTC start>-<run id>/, in
// events.jsonl; a file that has grown to its limit goes on as events.1.jsonl,
// events.2.jsonl and so on, the highest number being the youngest. The symbolic
// link .latest beside the run folders names the newest run.
//
// Lines stand in arrival order. A line that is known early is held back until
// those before it are known, within bounds of number, size and time: what one long call holds back
// beyond them is written, and the long call's own line comes late.
//
// Disk trouble never reaches a caller: lines wait in a bounded queue, a failed
// write is tried again, what does not fit is dropped and counted. Arguments and
// results are recorded only where [Options] ask for them, and then without the
// values of fields whose names say that they are secret.
//
// It knows nothing of dialects or tools and parses no envelope. All methods of
// a *Run and of an *Entry are safe for concurrent use and do nothing on nil, so
// a nil *Run is a recorder that is off.
package record
