// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// demand knows whether more calls of a tool come than get a place, again and again. A queue that only stands there does not say
// so: callers that wait for each answer before they call again make one that is long and does not grow. Rejecting some of
// these calls would gain nothing, because they come back.
type demand struct {
	since         time.Time
	asked, served int
	// isLate: a call waited for its whole time.
	isLate bool
	// level rises with each window in which there was too much, to highestDemand, and falls with the others.
	level int
}

const (
	// demandPart is the length of a window as a part of the time in the queue.
	demandPart = 8
	// excess is the ratio of calls that come to those that get a place above which there are too many; a few more are
	// chance.
	excess = 1.1
	few    = 8
	// highDemand is the level from which on calls are rejected early.
	highDemand, highestDemand = 3, 5
)

// roll closes a window that is over.
func (d *demand) roll(now time.Time, wait time.Duration) {
	elapsed, length := now.Sub(d.since), wait/demandPart
	if elapsed < length {
		return
	}
	switch {
	case elapsed > demandPart*length:
		d.level = 0 // nothing was asked for in all that time
	case d.isLate || float64(d.asked) > excess*float64(d.served)+few:
		d.level = min(d.level+1, highestDemand)
	default:
		d.level = max(d.level-1, 0)
	}
	d.since, d.asked, d.served, d.isLate = now, 0, 0, false
}

// isHigh reports whether more calls come than can be served.
func (d *demand) isHigh() bool { return d.level >= highDemand }
