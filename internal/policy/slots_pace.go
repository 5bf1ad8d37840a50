// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// rejectionPace is how many calls may be rejected in a second before their whole time is up.
//
// Where the backend is the bottleneck, many may be: it costs no result. Where CPU time is, each rejection takes the place of a
// part of a result, and a rejected caller that comes back at once makes the next one. Which of the two it is shows in the
// rate of results: the pace rises while they keep coming, and falls to half when there are fewer of them.
type rejectionPace struct {
	rate, tokens float64
	at           time.Time

	// since begins a window, in which so many calls ended; short: there were too few tokens, rejected: some were used.
	since           time.Time
	results         int
	short, rejected bool
	// best is the highest rate of results lately.
	best float64
}

const (
	// leastPace and mostPace bound the pace, in calls a second. The least costs no more than a few percent of a CPU.
	leastPace, mostPace = 250, 5_000
	// paceWindow is long enough to count results in.
	paceWindow = 100 * time.Millisecond
	// paceRise is the factor by which the pace rises in a window.
	paceRise = 1.5
	// fewer is the part of the best rate of results below which there are fewer, and forgotten how much of that rate is
	// remembered from window to window.
	fewer, forgotten = 0.85, 0.97
	// paceBurst is how long tokens are kept, in seconds.
	paceBurst = 0.02
)

// take reports whether one more call may be rejected now.
func (p *rejectionPace) take(now time.Time) bool {
	p.roll(now)
	p.tokens = min(p.tokens+now.Sub(p.at).Seconds()*p.rate, p.rate*paceBurst)
	p.at = now
	if p.tokens < 1 {
		p.short = true
		return false
	}
	p.tokens--
	p.rejected = true
	return true
}

// ended notes the end of a call that ran.
func (p *rejectionPace) ended(now time.Time) {
	p.roll(now)
	p.results++
}

// roll closes a window that is over.
func (p *rejectionPace) roll(now time.Time) {
	elapsed := now.Sub(p.since)
	if elapsed < paceWindow {
		return
	}
	rate := float64(p.results) / elapsed.Seconds()
	switch {
	case p.rate < leastPace || elapsed > 10*paceWindow:
		p.rate, p.best = leastPace, 0 // nothing was known, or it is long ago
	case p.rejected && rate < fewer*p.best:
		p.rate = max(leastPace, p.rate/2)
	case p.short:
		p.rate = min(mostPace, p.rate*paceRise)
	}
	p.best = max(rate, forgotten*p.best)
	p.since, p.results, p.short, p.rejected = now, 0, false, false
}
