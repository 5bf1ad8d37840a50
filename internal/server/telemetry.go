// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"
)

// leastFlush is how long the last exports may take after a drain that needed its whole
// grace period.
const leastFlush = 500 * time.Millisecond

// closeTelemetry exports what is left, within what is left of the grace period.
func (a *App) closeTelemetry() {
	left := a.cfg.GetLimits().GetDrainGrace().AsDuration()
	if began := a.drainBegan.Load(); began != 0 {
		left -= time.Since(time.Unix(0, began))
	}
	a.opts.Telemetry.Close(max(left, leastFlush))
}
