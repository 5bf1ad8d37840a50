// SPDX-License-Identifier: Apache-2.0

package hub

// Sized is an item that has a size in memory.
type Sized interface{ Size() int }

// InOrder is a queue that keeps all items in order of arrival. The zero value is empty.
type InOrder[T Sized] struct {
	ring[T]
	bytes int
}

// keptInOrder is how many items an empty queue keeps room for.
const keptInOrder = 64

// Put implements [Queue].
func (q *InOrder[T]) Put(item T, within *Bounds) Outcome {
	size := item.Size()
	if q.Len() >= within.Items || q.bytes+size > within.Bytes {
		return Overflowed
	}
	q.push(item)
	q.bytes += size
	return Queued
}

// Take implements [Queue].
func (q *InOrder[T]) Take() (T, bool) {
	item, ok := q.pop(keptInOrder)
	if ok {
		q.bytes -= item.Size()
	}
	return item, ok
}

// Reset implements [Queue].
func (q *InOrder[T]) Reset() { *q = InOrder[T]{} }
