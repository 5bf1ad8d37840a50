// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// defaultBackoffMin is the first pause between two loads: short, because a sidecar and its backend start together.
const defaultBackoffMin = 100 * time.Millisecond

// backoff hands out pauses that double from min to max, each shortened by up to half at random, so that many sidecars
// of one backend do not ask it all at once.
type backoff struct {
	min, max time.Duration
	random   func() float64 // in [0, 1)
	failures int
}

// next is the pause after one more failure.
func (b *backoff) next() time.Duration {
	d := b.max
	// Beyond 30 doublings the maximum is reached from any minimum, and the shift would overflow.
	if b.failures < 30 {
		d = min(b.max, b.min<<b.failures)
	}
	b.failures++
	return d/2 + time.Duration(b.random()*float64(d/2))
}

// reset starts over after a success.
func (b *backoff) reset() { b.failures = 0 }
