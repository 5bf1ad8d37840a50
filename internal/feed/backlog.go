// SPDX-License-Identifier: Apache-2.0

package feed

import outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"

// item is one pending change.
type item struct {
	kind Kind
	name string // the URI, or the task's id
	task *outriggerv1.Task
}

type itemKey struct {
	kind Kind
	name string
}

func (it *item) key() itemKey { return itemKey{kind: it.kind, name: it.name} }

// backlog is what a reader has not read yet, each thing once, the oldest first.
type backlog struct {
	// items are pending from head on.
	items []item
	head  int
	// named counts the pending ones that are no lists.
	named int
	// lists has the bit of every list that is pending.
	lists uint8
	// places are the numbers of the named items, once they are too many to look
	// at one by one. An item's number is its index plus what was cut off before it.
	places map[itemKey]int
	cut    int
}

const (
	// fewItems is up to where a look at every item is as fast as a map.
	fewItems = 16
	// keptItems is how much room an empty backlog keeps: a burst must not be paid
	// for until the end of the subscription.
	keptItems = 16
)

// offered is what became of a change.
type offered uint8

const (
	queued offered = iota
	// merged: it joined one that was pending.
	merged
	// overflowed: there was no room for one more URI or task.
	overflowed
	// ended: the subscription is over.
	ended
)

func (b *backlog) len() int { return len(b.items) - b.head }

// put takes a change in. At most so many may have a name: of the others there is
// one each.
func (b *backlog) put(it item, most int) offered {
	if it.kind.isList() {
		bit := uint8(1) << it.kind
		if b.lists&bit != 0 {
			return merged
		}
		b.lists |= bit
		b.push(it)
		return queued
	}
	if at, ok := b.find(it.key()); ok {
		b.items[at].task = it.task
		return merged
	}
	if b.named >= most {
		return overflowed
	}
	b.named++
	b.push(it)
	if b.places != nil {
		b.places[it.key()] = b.cut + len(b.items) - 1
	} else if b.len() > fewItems {
		b.mapPlaces()
	}
	return queued
}

// push appends an item, and moves the pending ones to the front rather than grow
// while half of the room is free.
func (b *backlog) push(it item) {
	if len(b.items) == cap(b.items) && b.head > len(b.items)/2 {
		b.cut += b.head
		n := copy(b.items, b.items[b.head:])
		clear(b.items[n:])
		b.items, b.head = b.items[:n], 0
	}
	b.items = append(b.items, it)
}

func (b *backlog) find(key itemKey) (int, bool) {
	if b.places != nil {
		number, ok := b.places[key]
		return number - b.cut, ok
	}
	for i := b.head; i < len(b.items); i++ {
		if b.items[i].kind == key.kind && b.items[i].name == key.name {
			return i, true
		}
	}
	return 0, false
}

func (b *backlog) mapPlaces() {
	b.places = make(map[itemKey]int, 2*fewItems)
	for i := b.head; i < len(b.items); i++ {
		if it := &b.items[i]; !it.kind.isList() {
			b.places[it.key()] = b.cut + i
		}
	}
}

// take returns the oldest pending change.
func (b *backlog) take() (item, bool) {
	if b.len() == 0 {
		return item{}, false
	}
	it := b.items[b.head]
	b.items[b.head] = item{}
	b.head++
	if it.kind.isList() {
		b.lists &^= 1 << it.kind
	} else {
		b.named--
		delete(b.places, it.key())
	}
	if b.len() == 0 {
		b.rewind()
	}
	return it, true
}

// retain gives up what is not wanted, and keeps the order of the rest.
func (b *backlog) retain(wanted func(*item) bool) {
	old := b.items[b.head:]
	*b = backlog{}
	for i := range old {
		if wanted(&old[i]) {
			b.put(old[i], len(old))
		}
	}
}

func (b *backlog) rewind() {
	*b = backlog{items: b.items[:0]}
	if cap(b.items) > keptItems {
		b.items = nil
	}
}
