// SPDX-License-Identifier: Apache-2.0

package hub

// Queue holds the unread items of a subscriber under a policy: [Merging] or [InOrder].
// The subscription locks it.
type Queue[T any] interface {
	// Put adds an item within the bounds. An item that does not fit changes nothing.
	Put(item T, within *Bounds) Outcome
	// Take removes and returns the oldest item, or returns false if there is none.
	Take() (T, bool)
	// Len returns the number of pending items.
	Len() int
	// Reset discards the pending items and frees their memory.
	Reset()
}

// Bounds are the limits of one queue.
type Bounds struct {
	// Items is the maximum number of pending items. Bytes is their maximum total size;
	// only [InOrder] enforces it.
	Items, Bytes int
}

// Outcome is the result of adding an item to a queue.
type Outcome uint8

// The outcomes.
const (
	Queued Outcome = iota
	// Merged means that the item merged with a pending one.
	Merged
	// Overflowed means that there was no room for the item.
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
