// SPDX-License-Identifier: Apache-2.0

package hub

// Index finds topics by key. Each vocabulary implements it. The hub calls it with its
// lock held, except for Cost.
type Index[K, T any] interface {
	// Topic returns the topic of a key, and whether it is new.
	Topic(key K) (t *Topic[K, T], isNew bool)
	// Release removes a topic without subscribers.
	Release(t *Topic[K, T])
	// Cost returns what a key counts against [Options.MaxBytes].
	Cost(key K) int
}

// Topic is one thing that subscriptions ask for. The hub's lock guards it.
type Topic[K, T any] struct {
	Key K
	// members are to be told. Some of the holders have another topic that covers
	// this one, and are told there.
	members []*seat[K, T]
	holders int
}

// seat is a subscription's place in a topic.
type seat[K, T any] struct {
	sub   *Subscription[K, T]
	topic *Topic[K, T]
	// at is its index among the members, or notAMember.
	at int
}

const notAMember = -1

func (t *Topic[K, T]) join(s *seat[K, T], covered bool) {
	t.holders++
	if covered {
		s.at = notAMember
		return
	}
	s.at = len(t.members)
	t.members = append(t.members, s)
}

// keptSeats is how much room a topic keeps free: once many have left, what they
// took is given back.
const keptSeats = 64

func (t *Topic[K, T]) leave(s *seat[K, T]) {
	t.holders--
	if s.at == notAMember {
		return
	}
	last := len(t.members) - 1
	moved := t.members[last]
	t.members[s.at], moved.at = moved, s.at
	t.members[last] = nil
	t.members = t.members[:last]
	if spare := cap(t.members); spare > keptSeats && last < spare/4 {
		t.members = append(make([]*seat[K, T], 0, spare/2), t.members...)
	}
	s.at = notAMember
}

// seat seats a subscription, and reports whether it is the first to ask for
// something. The caller holds the lock.
func (h *Hub[K, T]) seat(s *Subscription[K, T], wants []Want[K]) bool {
	changed := false
	s.seats = make([]seat[K, T], len(wants))
	for i, w := range wants {
		t, isNew := h.index.Topic(w.Key)
		changed = changed || isNew
		place := &s.seats[i]
		*place = seat[K, T]{sub: s, topic: t}
		t.join(place, w.Covered)
	}
	return changed
}

// leave gives up seats, and reports whether they were the last of something. The
// caller holds the lock.
func (h *Hub[K, T]) leave(seats []seat[K, T]) bool {
	changed := false
	for i := range seats {
		t := seats[i].topic
		t.leave(&seats[i])
		if t.holders == 0 {
			h.index.Release(t)
			changed = true
		}
	}
	return changed
}

func (h *Hub[K, T]) cost(wants []Want[K]) int {
	sum := 0
	for i := range wants {
		sum += h.index.Cost(wants[i].Key)
	}
	return sum
}

func (h *Hub[K, T]) seatCost(seats []seat[K, T]) int {
	sum := 0
	for i := range seats {
		sum += h.index.Cost(seats[i].topic.Key)
	}
	return sum
}
