// SPDX-License-Identifier: Apache-2.0

// Package reload detects changed files and reloads them.
//
// A [Watcher] polls all files of the process that may change while it runs, with
// one interval. The code that added a file reloads it. The watcher calls these
// functions one at a time, except that those which may wait for other hosts have a
// goroutine beside the others. It counts their outcomes, and records the last
// success. [Diff] compares two configurations field by field.
//
// Files are polled, not watched. Kubernetes swaps symbolic links two levels above
// a mounted file, editors replace files, and network file systems send no events.
// Polling detects all of these, and costs one stat per file.
package reload
