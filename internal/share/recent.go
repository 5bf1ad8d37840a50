// SPDX-License-Identifier: Apache-2.0

package share

import "time"

// aboutFor is how long after its last request somebody is still active: its share binds the others for as long, so that it
// finds room when it comes back.
const aboutFor = 10 * time.Second

// Recent knows which two names were seen last. This is enough to tell whether one of them is alone. The zero value has seen
// none. It is not safe for concurrent use.
type Recent struct {
	last, other     string
	lastAt, otherAt time.Time
}

// Seen notes a name.
func (r *Recent) Seen(name string, now time.Time) {
	if name != r.last {
		r.other, r.otherAt = r.last, r.lastAt
		r.last = name
	}
	r.lastAt = now
}

// Alone reports whether no other name was seen in the last ten seconds.
func (r *Recent) Alone(name string, now time.Time) bool {
	at := r.lastAt
	if r.last == name {
		at = r.otherAt
	}
	return at.IsZero() || now.Sub(at) > aboutFor
}
