// SPDX-License-Identifier: Apache-2.0

// Package linefile writes lines to a file, or to a stream such as standard output, for
// many callers at once.
//
// [Writer.Append] queues a line and never waits for the disk. [Writer.Commit] waits until
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
// [Open] then begins on a fresh line, and reports the piece.
package linefile
