// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"runtime"
	"time"
)

// concurrency is how many calls of one tool may run at once: as many as raise its throughput, and not those that only wait
// for each other.
//
// It follows latency, as Netflix's gradient algorithm does: the mean of a window beside the least mean that was seen. Where
// that has more than doubled, calls wait for each other, and the limit falls to twice what the throughput needs at the least
// latency (Little's law). Latency alone lies, however: a tool whose calls differ is slow at times without being overloaded.
// So each step down is a trial. If throughput falls with the limit, the calls that were taken away did work: the limit goes
// back, more latency is taken for normal, and the next trial waits, twice as long each time.
//
// The least latency may never come back: other processes take the CPU, or the backend has got slower for good. So while calls
// have to wait, a step up is a trial as well. It is kept if throughput rises with it.
type concurrency struct {
	// limit is 0 until latency has been measured: until then, only the bound on all calls applies.
	limit int
	// base is the lowest mean latency of any window.
	base time.Duration

	window window
	trial  trial
	// down and up say when a step may be tried.
	down, up pause
}

// window has what was measured since a time.
type window struct {
	since time.Time
	ended int
	sum   time.Duration
	// most is how many calls ran at once. met is set if the limit kept one more from running.
	most int
	met  bool
}

// trial is a change of the limit whose effect is being measured. limit, rate and mean are from before it.
type trial struct {
	limit int
	rate  float64
	mean  time.Duration
	// isUp: it raised the limit. settles: calls from before it are still running, so this window is not judged.
	isUp, settles bool
}

// pause is the wait after a trial that failed, twice as long each time. mean is the latency when the last one began.
type pause struct {
	until        time.Time
	length, mean time.Duration
}

func (p *pause) isOver(now time.Time) bool { return !now.Before(p.until) }

// isStale reports that a trial failed under another latency, which says nothing of this one.
func (p *pause) isStale(mean time.Duration) bool {
	return float64(mean) > stale*float64(p.mean) || float64(p.mean) > stale*float64(mean)
}

// begin starts the pause before the next trial. A failure of long ago does not lengthen it.
func (p *pause) begin(now time.Time, mean time.Duration) {
	p.mean = mean
	if now.Sub(p.until) > longestPause {
		p.length = 0
	}
	p.length = min(max(2*p.length, firstPause), longestPause)
	p.until = now.Add(p.length)
}

const (
	// leastConcurrency is per CPU what keeps it busy while other calls wait for the backend.
	leastConcurrency = 8
	// windowTime and windowCalls are the least that a window has: enough for a mean.
	windowTime  = 100 * time.Millisecond
	windowCalls = 16
	// tolerance is the ratio of latencies that is taken for noise.
	tolerance = 2.0
	// gentlest is the smallest step down, as a factor.
	gentlest = 0.9
	// costly is the part of the throughput below which a step down has failed.
	costly = 0.9
	// stepUp is a step up, as a factor, and useful the factor of the throughput from which on it is kept.
	stepUp, useful = 1.25, 1.12
	// stale is the ratio of latencies above which a step up that failed says nothing.
	stale = 1.5
	// drift is what base grows by in a second, so that it is not the luck of one day.
	drift = 0.01
	// firstPause and longestPause bound the time between trials that fail.
	firstPause, longestPause = time.Second, 30 * time.Second
)

// now is the current limit, at most that of all calls.
func (c *concurrency) now(most int) int {
	if c.limit == 0 {
		return most
	}
	return min(c.limit, most)
}

// met notes that the limit keeps a call from running.
func (c *concurrency) met() { c.window.met = true }

// begun notes how many calls run.
func (c *concurrency) begun(running int) { c.window.most = max(c.window.most, running) }

// ended notes the time of a call, and at the end of a window adapts the limit. running is how many are left.
func (c *concurrency) ended(now time.Time, took time.Duration, running, most int) {
	w := &c.window
	if took <= 0 {
		return // the process stood still, and nothing is known
	}
	if w.since.IsZero() || c.trial.limit > 0 && !c.trial.isUp && running > c.limit {
		c.window = window{since: now, most: running} // calls from before a step down have to end before it can be judged
		return
	}
	w.ended++
	w.sum += took
	elapsed := now.Sub(w.since)
	if elapsed < windowTime || w.ended < windowCalls {
		return
	}
	mean, rate := w.sum/time.Duration(w.ended), float64(w.ended)/elapsed.Seconds()
	if w.ended < w.most && !c.isClear(now, mean) {
		return
	}
	if c.trial.settles {
		c.trial.settles, c.window = false, window{since: now, most: running}
		return
	}
	c.learn(mean, elapsed)
	c.adapt(now, mean, rate, most)
	c.window = window{since: now, most: running}
}

// isClear reports that a window says enough, although fewer calls ended than run at once: latency is low, or so high that the
// limit falls. It has no rate to compare with that of another window.
func (c *concurrency) isClear(now time.Time, mean time.Duration) bool {
	isLow := float64(mean) <= tolerance*float64(c.base)
	return c.trial.limit == 0 && (isLow || c.base == 0 || c.mayFall(now))
}

// mayFall reports whether a step down may be tried.
func (c *concurrency) mayFall(now time.Time) bool {
	return c.window.most > c.least() && c.down.isOver(now)
}

// least is the limit below which there are no steps.
func (*concurrency) least() int { return leastConcurrency * runtime.GOMAXPROCS(0) }

// learn remembers the lowest mean latency.
func (c *concurrency) learn(mean, elapsed time.Duration) {
	grown := time.Duration(float64(c.base) * (1 + drift*min(elapsed.Seconds(), 1)))
	if c.base == 0 || mean < grown {
		grown = mean
	}
	c.base = max(grown, time.Microsecond)
}

// adapt ends a trial, begins one, or lets the limit grow.
func (c *concurrency) adapt(now time.Time, mean time.Duration, rate float64, most int) {
	if c.judge(now, mean, rate) {
		return
	}
	w, ratio, limit := &c.window, float64(mean)/float64(c.base), c.now(most)
	switch {
	case ratio > tolerance && c.mayFall(now):
		c.trial = trial{limit: limit, rate: rate, mean: mean}
		c.limit = max(c.least(), int(min(rate*c.base.Seconds()*tolerance, gentlest*float64(min(limit, w.most)))))
	case ratio > tolerance && w.met && limit < most && (c.up.isOver(now) || c.up.isStale(mean)):
		c.trial = trial{limit: limit, rate: rate, mean: mean, isUp: true, settles: true}
		c.limit = min(most, int(math.Ceil(stepUp*float64(limit))))
	case ratio <= tolerance && w.met, w.most < limit/2:
		c.limit = min(most, limit+max(1, limit/10))
	}
}

// judge ends a trial, and reports whether the limit went back.
func (c *concurrency) judge(now time.Time, mean time.Duration, rate float64) (isBack bool) {
	t := c.trial
	c.trial = trial{}
	switch {
	case t.limit == 0, !c.window.met, !t.isUp && rate >= costly*t.rate:
		return false
	case !t.isUp: // the calls that were taken away did work
		c.limit = t.limit
		c.raise(time.Duration(float64(t.mean) / tolerance))
		c.down.begin(now, t.mean)
		return true
	case rate < useful*t.rate: // and these did not
		c.limit = t.limit
		c.up.begin(now, t.mean)
		return true
	}
	// The part of the step that became throughput is the part of the latency in which no call waits for another.
	gain := (rate/t.rate - 1) / (float64(c.limit)/float64(t.limit) - 1)
	c.raise(time.Duration(float64(mean) * min(gain, 1)))
	c.down.begin(now, t.mean)
	return false
}

// raise accepts more latency as normal, at most twice as much.
func (c *concurrency) raise(to time.Duration) { c.base = max(c.base, min(2*c.base, to)) }
