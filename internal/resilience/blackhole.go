// SPDX-License-Identifier: Apache-2.0

package resilience

import "time"

// blackhole recognises a backend that takes calls and answers none: calls of two or
// more tools ran out of time within the window, and nothing was answered in it. One
// tool alone says nothing about the others. The breaker's lock guards it.
type blackhole struct {
	late window
	// tools are the two tools of the last timeouts, and when they were.
	tools [2]struct {
		key string
		at  time.Time
	}
}

// timedOut counts a timeout and reports whether there are enough of them.
func (h *blackhole) timedOut(now time.Time, key string, length time.Duration, least uint) bool {
	_, late := h.late.count(now, true)
	at := 0
	switch {
	case h.tools[0].key == key && !h.tools[0].at.IsZero():
	case h.tools[1].key == key && !h.tools[1].at.IsZero(), h.tools[1].at.Before(h.tools[0].at):
		at = 1
	}
	h.tools[at].key, h.tools[at].at = key, now
	other := h.tools[1-at].at
	return late >= least && !other.IsZero() && now.Sub(other) <= length
}

// forget begins anew.
func (h *blackhole) forget() { *h = blackhole{late: newWindow(h.late.piece * pieces)} }
