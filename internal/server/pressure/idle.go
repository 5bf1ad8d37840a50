// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/memory"
)

// idleAfter is how long a sidecar must have been quiet before it gives memory
// back. Giving back costs a collection of a few milliseconds, and the next call
// some page faults, so it must not happen between the calls of one
// conversation.
const idleAfter = 10 * time.Second

// Activity describes what a sidecar is doing: the number of requests that have begun
// and are in flight, and when the current catalog was built.
type Activity func() (begun uint64, inFlight int, built time.Time)

// KeepSmall releases memory whenever the sidecar has been idle for a while, once per
// idle period: the sidecar of a pod is idle most of the day, and there are thousands
// of them. It also releases the memory used to build another catalog, under load too.
// It returns when ctx ends.
func KeepSmall(ctx context.Context, now Activity, log *zap.Logger) {
	ticker := time.NewTicker(idleAfter)
	defer ticker.Stop()
	var spare spareTime
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !spare.wants(now()) {
			continue
		}
		if _, err := memory.Release(); err != nil {
			log.Debug("releasing memory failed", logkey.Error(err))
		}
	}
}

// spareTime knows when memory is to be given back.
type spareTime struct {
	seen, released uint64
	built          time.Time
}

// wants looks at how many requests have begun and are in flight, and at when the
// catalog in use was built, zero for none. That of the first catalog is given back
// twice: when it is announced, and here, since a start goes on for a while.
func (s *spareTime) wants(begun uint64, inFlight int, built time.Time) bool {
	quiet := begun == s.seen && inFlight == 0 && begun != s.released
	rebuilt := !built.IsZero() && !built.Equal(s.built)
	s.seen, s.built = begun, built
	if quiet {
		s.released = begun
	}
	return quiet || rebuilt
}
