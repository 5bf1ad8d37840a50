// SPDX-License-Identifier: Apache-2.0

// Package trail writes what happened as JSON lines: the audit trail ([Audit]), the record of a run ([Run]), and the files both use
// ([LineWriter]).
//
// # Records
//
// A [Run] writes run records: one JSON line for each envelope at a JSON-RPC
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
// recorded only if [RecordOptions] request it, and then without the values of fields with
// secret names.
//
// It knows no dialects and no tools, and parses no envelope. All methods of a
// *Run and of an *Entry are safe for concurrent use and do nothing on nil, so a nil
// *Run is a disabled recorder.
//
// # The audit trail
//
// An [Audit] writes the audit trail: one JSON line for each invocation of a tool,
// resource or prompt, and for each change by an operator or of a file. It is never
// sampled.
//
// The bridge reports invocations ([Audit.Begin], [Audit.End]), and the assembly reports
// changes ([Audit.Change]). A line has every member of its schema, null where unknown:
// testdata/schemas/audit-v1.schema.json. Lines of one invocation have the same id.
//
// A trail that is required, or synced for every line, has two lines for each invocation:
// Begin returns once the first one is on the disk, before the backend is called. Calls that
// wait at the same time share one fsync. A trail that is required refuses what it cannot
// record; any other trail never keeps a caller waiting for a failed disk.
//
// [ReadAudit] reads trails back, line by line, in bounded memory. A nil *Audit writes nothing.
// All methods are safe for concurrent use.
//
// # Files of lines
//
// A [LineWriter] writes lines to a file, or to a stream such as standard output, for
// many callers at once.
//
// [LineWriter.Append] queues a line and never waits for the disk. [LineWriter.Commit] waits until
// its line is durable: all callers that wait at the same time share one write and one
// fsync (group commit). One goroutine writes. The queue is bounded; lines that do not fit
// are dropped and counted. After a failed write the lines wait, the write is retried, and
// Commit fails at once until it succeeds again.
//
// A file that has reached its size limit is renamed to NAME.1, NAME.2 and so on; the
// highest number is the newest. No line is split between two files. A file that another
// process has moved away is created again at its path.
//
// A process that is killed may leave a piece of a line at the end of the file. The next
// [openLines] then begins on a fresh line, and reports the piece.
package trail
