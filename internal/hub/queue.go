// SPDX-License-Identifier: Apache-2.0

package hub

// Queue is what a subscriber has not read yet, under a policy: [Merging] or
// [InOrder]. The subscription has the lock.
type Queue[T any] interface {
	// Put takes an item in, within the bounds. One that does not fit changes nothing.
	Put(item T, within *Bounds) Outcome
	// Take returns the oldest item, and false where there is none.
	Take() (T, bool)
	// Len is how many items are pending.
	Len() int
	// Reset gives up what is pending, and the memory for it.
	Reset()
}

// Bounds of one queue.
type Bounds struct {
	// Items is how many may be pending. Bytes is how large they may be together; only
	// [InOrder] keeps to it.
	Items, Bytes int
}

// Outcome is what became of an item at a queue.
type Outcome uint8

// The outcomes.
const (
	Queued Outcome = iota
	// Merged: it joined one that was pending.
	Merged
	// Overflowed: there was no room for it.
	Overflowed
	// ended: the subscription was over.
	ended
)

// ring holds items in the order in which they came.
type ring[T any] struct {
	// items are pending from head on.
	items []T
	head  int
}

// Len implements [Queue].
func (r *ring[T]) Len() int { return len(r.items) - r.head }

// push appends an item, and moves the pending ones to the front rather than grow
// while half of the room is free. It returns by how much they moved.
func (r *ring[T]) push(item T) int {
	cut := 0
	if len(r.items) == cap(r.items) && r.head > len(r.items)/2 {
		cut = r.head
		n := copy(r.items, r.items[r.head:])
		clear(r.items[n:])
		r.items, r.head = r.items[:n], 0
	}
	r.items = append(r.items, item)
	return cut
}

// pop returns the oldest item. An empty ring keeps room for so many: a burst must
// not be paid for until the end of the subscription.
func (r *ring[T]) pop(kept int) (T, bool) {
	var none T
	if r.Len() == 0 {
		return none, false
	}
	item := r.items[r.head]
	r.items[r.head] = none
	r.head++
	if r.Len() == 0 {
		r.items, r.head = r.items[:0], 0
		if cap(r.items) > kept {
			r.items = nil
		}
	}
	return item, true
}
