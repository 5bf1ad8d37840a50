// SPDX-License-Identifier: Apache-2.0

package hub

// Keyed is an item that merges with a pending item of the same key.
type Keyed[K comparable] interface {
	// Key identifies what the item is about.
	Key() K
	// Counts reports whether the item counts against [Bounds]. Items with few possible
	// keys need not count.
	Counts() bool
}

// Merging is a queue that keeps one item per key, with the position of the first item
// and the state of the last one. So an item that changes all the time cannot delay
// itself forever. The zero value is empty.
type Merging[K comparable, T Keyed[K]] struct {
	ring[T]
	// counted is how many of the pending ones count against the bounds.
	counted int
	// places are the numbers of the pending items, once they are too many to look at
	// one by one. An item's number is its index plus what was cut off before it.
	places map[K]int
	cut    int
}

const (
	// fewItems is up to where a look at every item is as fast as a map.
	fewItems = 16
	// keptMerging is how many items an empty queue keeps room for.
	keptMerging = 16
)

// Put implements [Queue].
func (q *Merging[K, T]) Put(item T, within *Bounds) Outcome {
	key := item.Key()
	if at, ok := q.find(key); ok {
		q.items[at] = item
		return Merged
	}
	if item.Counts() {
		if q.counted >= within.Items {
			return Overflowed
		}
		q.counted++
	}
	q.cut += q.push(item)
	if q.places != nil {
		q.places[key] = q.cut + len(q.items) - 1
	} else if q.Len() > fewItems {
		q.mapPlaces()
	}
	return Queued
}

func (q *Merging[K, T]) find(key K) (int, bool) {
	if q.places != nil {
		number, ok := q.places[key]
		return number - q.cut, ok
	}
	for i := q.head; i < len(q.items); i++ {
		if q.items[i].Key() == key {
			return i, true
		}
	}
	return 0, false
}

func (q *Merging[K, T]) mapPlaces() {
	q.places = make(map[K]int, 2*fewItems)
	for i := q.head; i < len(q.items); i++ {
		q.places[q.items[i].Key()] = q.cut + i
	}
}

// Take implements [Queue].
func (q *Merging[K, T]) Take() (T, bool) {
	item, ok := q.pop(keptMerging)
	if !ok {
		return item, false
	}
	if item.Counts() {
		q.counted--
	}
	delete(q.places, item.Key())
	if q.Len() == 0 {
		q.places, q.cut = nil, 0
	}
	return item, true
}

// Reset implements [Queue].
func (q *Merging[K, T]) Reset() { *q = Merging[K, T]{} }

// Retain removes items that are not wanted, and keeps the order of the rest.
func (q *Merging[K, T]) Retain(isWanted func(T) bool) {
	pending := q.items[q.head:]
	q.Reset()
	for _, item := range pending {
		if isWanted(item) {
			q.Put(item, &Bounds{Items: len(pending)})
		}
	}
}
