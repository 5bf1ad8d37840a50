// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// rejectionPace is how many calls may be rejected in a second before their whole time is up.
//
// Where the backend is the bottleneck, many may be: it costs no result. Where CPU time is, each rejection takes the place of a
// part of a result, and a rejected caller that comes back at once makes the next one. Which of the two it is shows in how late
// the queue is looked at: behind everything else that waits for a CPU.
type rejectionPace struct {
	rate, tokens float64
	at           time.Time

	// since begins a window. Its looks at the queue were late by the sum of late.
	since time.Time
	// looks are those of the window, taken the calls that were rejected in it.
	looks int
	taken int
	late  time.Duration
}

const (
	// leastPace and mostPace bound the pace, in calls a second. The least costs no more than a few percent of a CPU.
	leastPace, mostPace = 250, 5_000
	// paceWindow has about fifty looks where CPU time is not short.
	paceWindow = 100 * time.Millisecond
	// paceRise is the factor by which the pace rises in a window: from the least to all that a slow backend needs in half a second.
	// While none is rejected, looks are few, and what they say cannot come from rejections.
	paceRise, paceRiseIdle = 2, 8
	// tooLate is by how much looks are late, on average, where CPU time is short: the work of some fifty calls.
	tooLate = 2 * time.Millisecond
	// paceBurst is how long tokens are kept, in seconds.
	paceBurst = 0.02
)

// take reports whether one more call may be rejected now.
func (p *rejectionPace) take(now time.Time) bool {
	p.tokens = min(p.tokens+now.Sub(p.at).Seconds()*p.rate, p.rate*paceBurst)
	p.at = now
	if p.tokens < 1 {
		return false
	}
	p.tokens--
	p.taken++
	return true
}

// looked notes by how much a look at the queue was late, and closes a window that is over.
func (p *rejectionPace) looked(now time.Time, late time.Duration) {
	p.looks++
	p.late += max(late, 0)
	elapsed := now.Sub(p.since)
	if elapsed < paceWindow {
		return
	}
	switch mean := p.late / time.Duration(p.looks); {
	case p.rate < leastPace:
		p.rate = leastPace // nothing was known
	case mean > tooLate:
		p.rate = max(leastPace, p.rate/2)
	case p.taken == 0:
		p.rate = min(mostPace, p.rate*paceRiseIdle)
	default:
		p.rate = min(mostPace, p.rate*paceRise)
	}
	p.since, p.looks, p.taken, p.late = now, 0, 0, 0
}
