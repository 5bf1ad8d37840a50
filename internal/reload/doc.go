// SPDX-License-Identifier: Apache-2.0

// Package reload notices that files have changed and has them read again.
//
// A [Watcher] looks at all files of the process that may change while it runs:
// one goroutine, one interval. What to do with a file that changed is the
// business of the code that added it; the watcher calls them one at a time, counts
// what came of it, and knows when it last went well. [Diff] compares two
// configurations field by field.
//
// Files are looked at rather than subscribed to. Kubernetes swaps symbolic links
// two levels above a mounted file, editors replace files, network file systems
// announce nothing: a look finds all of them, and costs a stat for each file.
package reload
