// SPDX-License-Identifier: Apache-2.0

package resilience

import "time"

// pieces is how many parts of a window are forgotten one after the other.
const pieces = 10

// window counts calls over a time. The library has one too, which forgets what is
// too old only in the moment in which it counts the next call, and then judges: where
// old successes go, a success opens the breaker.
type window struct {
	piece  time.Duration
	counts [pieces]struct {
		at             int64 // the number of the piece of time that the counts are of
		failed, others uint
	}
}

func newWindow(length time.Duration) window { return window{piece: max(length/pieces, 1)} }

// count counts a call and returns how many there were within the window, and how
// many of them failed.
func (w *window) count(now time.Time, failed bool) (all, failures uint) {
	at := now.UnixNano() / int64(w.piece)
	here := &w.counts[at%pieces]
	if here.at != at {
		here.at, here.failed, here.others = at, 0, 0
	}
	if failed {
		here.failed++
	} else {
		here.others++
	}
	for _, c := range w.counts {
		if c.at > at-pieces && c.at <= at {
			all += c.failed + c.others
			failures += c.failed
		}
	}
	return all, failures
}

// forget begins anew.
func (w *window) forget() { *w = window{piece: w.piece} }
