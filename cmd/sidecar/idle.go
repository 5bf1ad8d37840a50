// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// idleAfter is how long a sidecar must have been quiet before it gives memory
// back. Giving back costs a collection of a few milliseconds, and the next call
// some page faults, so it must not happen between the calls of one
// conversation.
const idleAfter = 10 * time.Second

// keepSmall gives memory back whenever the sidecar has been quiet for a while,
// once for each quiet time: a pod's sidecar is idle most of the day, and there
// are thousands of them. It returns when ctx ends.
func (a *app) keepSmall(ctx context.Context) {
	ticker := time.NewTicker(idleAfter)
	defer ticker.Stop()
	var seen, released uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		begun := a.bridge.Begun()
		quiet := begun == seen && a.bridge.Flights().InFlight() == 0
		seen = begun
		if !quiet || begun == released {
			continue
		}
		released = begun
		if _, err := releaseMemory(); err != nil {
			a.log.Debug("memory was not given back", zap.Error(err))
		}
	}
}
