// SPDX-License-Identifier: Apache-2.0

// Package stats counts how requests end: by tool or operation, by canonical code
// and by edge, how long they took, and how much of that was the sidecar's own
// time.
//
// To count costs a look into a map and a few atomic additions, and allocates
// nothing once a tool has been seen. A reader of the numbers, such as a scrape,
// asks for a [Snapshot]. The number of series is bounded, whatever callers send.
// Everything is safe for concurrent use.
package stats
