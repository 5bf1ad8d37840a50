// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// aboutFor is how long after its last call somebody is still about: a caller's share binds the others for as long, so
// that it finds room when it comes back.
const aboutFor = 10 * time.Second

// recent knows the two names that were seen last, which is enough to tell whether one of them is alone.
type recent struct {
	last, other     string
	lastAt, otherAt time.Time
}

// seen notes a name.
func (r *recent) seen(name string, now time.Time) {
	if name != r.last {
		r.other, r.otherAt = r.last, r.lastAt
		r.last = name
	}
	r.lastAt = now
}

// alone reports whether no other name was seen lately.
func (r *recent) alone(name string, now time.Time) bool {
	at := r.lastAt
	if r.last == name {
		at = r.otherAt
	}
	return at.IsZero() || now.Sub(at) > aboutFor
}
