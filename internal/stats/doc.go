// SPDX-License-Identifier: Apache-2.0

// Package stats counts finished requests: by tool or operation, by canonical
// code and by edge, with their duration and the sidecar's own share of it.
//
// Counting costs a map lookup and a few atomic additions, and allocates nothing
// once a tool has been seen. A reader, such as a scrape, takes a [Snapshot]. The
// number of series is limited, whatever callers send. Everything is safe for
// concurrent use.
package stats
