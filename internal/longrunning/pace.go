// SPDX-License-Identifier: Apache-2.0

package longrunning

import "time"

const (
	// MinInterval and MaxInterval bound the time between two questions about an operation.
	MinInterval = 250 * time.Millisecond
	MaxInterval = 10 * time.Second
	// ageShare is the part of an operation's age after which to ask again: an answer is late
	// by at most an eighth.
	ageShare = 8
)

// Pace is how long to wait before each question about an operation: at first MinInterval,
// then each time twice as long, up to MaxInterval. The zero value is ready for use.
type Pace struct{ last time.Duration }

// Next returns the next interval.
func (p *Pace) Next() time.Duration {
	p.last = min(max(2*p.last, MinInterval), MaxInterval)
	return p.last
}

// IntervalAt returns the interval to suggest to a caller who asks about an operation of an
// age. It needs no memory of the questions before.
func IntervalAt(age time.Duration) time.Duration {
	return min(max(age/ageShare, MinInterval), MaxInterval).Truncate(time.Millisecond)
}
