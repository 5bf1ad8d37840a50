// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// Reason is why a session ended.
type Reason uint8

const (
	// Requested: the client ended it.
	Requested Reason = iota
	// Expired: the client did not use it for too long.
	Expired
	// Evicted: another session took its place, at a limit.
	Evicted
	// Shutdown: all sessions end.
	Shutdown
)

// Ended describes a session that has ended, for [Options].
type Ended struct {
	// Version is the revision of MCP, empty if the client is not known to have one.
	Version string
	// Principal is the caller.
	Principal string
	Why       Reason
	// Took is the time from initialize to the end.
	Took time.Duration
}
