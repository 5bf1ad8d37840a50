// SPDX-License-Identifier: Apache-2.0

package linefile

import "time"

// Buckets returns the upper bounds of the buckets of a [Latency].
func Buckets() [9]time.Duration {
	return [...]time.Duration{
		100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second,
	}
}

// Latency is a distribution of durations.
type Latency struct {
	Count uint64
	Sum   time.Duration
	// UpTo counts the durations up to each bound of Buckets.
	UpTo [9]uint64
}

func (l *Latency) add(d time.Duration) {
	l.Count++
	l.Sum += d
	for i, bound := range Buckets() {
		if d <= bound {
			l.UpTo[i]++
		}
	}
}
