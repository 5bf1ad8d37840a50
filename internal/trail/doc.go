// SPDX-License-Identifier: Apache-2.0

// Package trail writes what happened as JSON lines: run records ([Run]) and the audit trail ([Audit]). It knows no dialects and
// parses no envelope; of tools it knows what is secret in their messages. A nil *Run, *Entry or *Audit writes nothing, and all methods are safe for concurrent use.
//
// A Run has one line for each envelope at a JSON-RPC edge, in arrival order, in a directory for each run of the process:
// DIR/mcp_server/envelope_validation/<UTC start>-<run id>/events.jsonl, and events.1.jsonl and so on once a file has reached its
// size limit. The symbolic link .latest beside the directories points to the newest. The bridge reports the arrival of an envelope
// ([Run.Begin]) and its outcome ([Entry.End]), and never waits. A line whose outcome is known early is held back until those before
// it are known, within bounds of number, size and time; beyond them the lines behind a long call are written, and that of the long
// call is late. Arguments and results are recorded only if [RecordOptions] request it, without the values of secret fields.
//
// An Audit has one line for each invocation of a tool, resource or prompt ([Audit.Begin], [Audit.End]), and for each change by an
// operator or of a file ([Audit.Change]). It is never sampled, and a line has every member of its schema, null where unknown:
// testdata/schemas/audit-v1.schema.json. A trail that is required, or synced for every line, has two lines with one id for each
// invocation: Begin returns once the first is on the disk, before the backend is called. A trail that is required refuses what it
// cannot record; any other trail never keeps a caller waiting for a failed disk. [ReadAudit] reads trails back, line by line, in
// bounded memory.
//
// Both write through a [LineWriter] or its disk: one goroutine, a bounded queue, and lines that do not fit are dropped and counted.
// [LineWriter.Append] queues a line and never waits for the disk. [LineWriter.Commit] waits until its line is durable: all callers
// that wait at the same time share one write and one fsync (group commit). After a failed write the lines wait and the write is
// retried; Commit fails at once until it succeeds again. A file that has reached its size limit is renamed to NAME.1, NAME.2 and so
// on; the highest number is the newest, and no line is split. A file that another process has moved away is created again. A
// process that is killed may leave a piece of a line: the next [openLines] begins on a fresh line, and reports the piece.
package trail
