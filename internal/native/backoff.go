// SPDX-License-Identifier: Apache-2.0

package native

import "time"

// backoff hands out pauses that double from min to max, each shortened by up to
// half at random, so that many sidecars of one backend do not come back at once.
type backoff struct {
	min, max time.Duration
	random   func() float64 // in [0, 1)
	failures int
}

// next is the pause after one more failure.
func (b *backoff) next() time.Duration {
	const doublings = 30 // reach any maximum from any minimum, and overflow nothing
	d := b.max
	if b.failures < doublings {
		d = min(b.max, b.min<<b.failures)
	}
	b.failures++
	return d/2 + time.Duration(b.random()*float64(d/2))
}

// reset starts over.
func (b *backoff) reset() { b.failures = 0 }
