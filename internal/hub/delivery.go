// SPDX-License-Identifier: Apache-2.0

package hub

// Delivery is the delivery of one published item. It holds the hub's lock for reading
// until [Delivery.End], so that the index may be read.
type Delivery[K, T any] struct {
	hub   *Hub[K, T]
	slow  []*Subscription[K, T]
	count [ended + 1]uint64
}

// Deliver begins a delivery. The caller must end it. The error is [ErrClosed].
func (h *Hub[K, T]) Deliver() (Delivery[K, T], error) {
	h.mu.RLock()
	if h.closed {
		h.mu.RUnlock()
		return Delivery[K, T]{}, ErrClosed
	}
	h.published.Add(1)
	return Delivery[K, T]{hub: h}, nil
}

// To delivers the item to the members of a topic. It never waits for their readers.
func (d *Delivery[K, T]) To(t *Topic[K, T], item T) {
	for _, s := range t.members {
		done := s.sub.offer(item)
		d.count[done]++
		if done == Overflowed {
			d.slow = append(d.slow, s.sub)
		}
	}
}

// End unlocks the hub, drops the subscribers whose queues had no room for the item, and
// returns the number of subscribers for which the item became pending. It drops all of
// them at once, because one item may overflow many queues.
func (d *Delivery[K, T]) End() int {
	h := d.hub
	h.mu.RUnlock()
	h.queued.Add(d.count[Queued])
	h.merged.Add(d.count[Merged])
	if len(d.slow) == 0 {
		return int(d.count[Queued])
	}
	h.dropped.Add(uint64(len(d.slow)))
	h.forget(d.slow...)
	if h.opts.OnDrop != nil {
		for _, s := range d.slow {
			h.opts.OnDrop(&SlowError{Missed: s.missed()})
		}
	}
	return int(d.count[Queued])
}
