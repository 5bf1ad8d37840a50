// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// demand knows whether more calls of a tool come than get a place, again and again. A queue that only stands there does not say
// so: callers that wait for each answer before they call again make one that is long and does not grow. Rejecting some of
// these calls would gain nothing, because they come back.
//
// Once calls are rejected early, the count says less: a rejected caller that comes back at once looks like one more. So early
// rejections pause from time to time, for a short window. If the queue does not grow without them, there is no need for them.
type demand struct {
	since         time.Time
	asked, served int
	// isLate: a call waited for its whole time.
	isLate bool
	// level rises with each window in which there was too much, to highestDemand, and falls with the others.
	level int
	// isProbe: early rejections pause in this window. windows are those since the last pause, and pauseAfter how many
	// there are to be.
	isProbe             bool
	windows, pauseAfter int
}

const (
	// demandPart is the length of a window as a part of the time in the queue, probePart that of a pause of early rejections:
	// what is added to the queue meanwhile makes every answer late.
	demandPart, probePart = 10, 40
	// excess is the ratio of calls that come to those that get a place above which there are too many; a few more are
	// chance.
	excess           = 1.1
	few, fewInProbes = 8, 2
	// plain is the ratio, and plainFew the number beyond it, that ends a pause of early rejections at once.
	plain, plainFew = 2, 24
	// highDemand is the level from which on calls are rejected early.
	highDemand, highestDemand = 3, 5
	// firstPauseAfter and lastPauseAfter bound the windows between two pauses: each pause that was in vain doubles them.
	firstPauseAfter, lastPauseAfter = 4, 16
)

// roll closes a window that is over.
func (d *demand) roll(now time.Time, wait time.Duration) {
	elapsed, length := now.Sub(d.since), wait/demandPart
	if d.isProbe {
		length = wait / probePart
	}
	if elapsed < length && !d.isPlain() {
		return
	}
	d.judge(elapsed > wait)
	d.since, d.asked, d.served, d.isLate = now, 0, 0, false
}

// judge learns from the counts of a window. isStale: nothing was asked for in a long time.
func (d *demand) judge(isStale bool) {
	switch {
	case isStale:
		d.level, d.isProbe, d.windows, d.pauseAfter = 0, false, 0, 0
		return
	case d.isProbe:
		d.probed()
		return
	case d.tooMuch(few):
		d.level = min(d.level+1, highestDemand)
	default:
		d.level = max(d.level-1, 0)
	}
	if d.level < highDemand {
		d.windows = 0
		return
	}
	d.windows++
	d.isProbe = d.windows > max(d.pauseAfter, firstPauseAfter)
}

// probed ends a pause of early rejections.
func (d *demand) probed() {
	d.isProbe, d.windows = false, 0
	if d.tooMuch(fewInProbes) {
		d.pauseAfter = min(2*max(d.pauseAfter, firstPauseAfter), lastPauseAfter)
		return
	}
	d.level, d.pauseAfter = 0, 0
}

// isPlain reports that a pause of early rejections need not last: far more calls come than are served.
func (d *demand) isPlain() bool { return d.isProbe && d.asked > plain*d.served+plainFew }

func (d *demand) tooMuch(chance int) bool {
	return d.isLate || float64(d.asked) > excess*float64(d.served)+float64(chance)
}

// isHigh reports whether more calls come than can be served, so that some are to be rejected early.
func (d *demand) isHigh() bool { return d.level >= highDemand && !d.isProbe }
