// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"slices"
	"strings"
)

// topicKey names what a change is about: a list, a resource, or a principal's
// task.
type topicKey struct {
	kind            Kind
	name, principal string
}

// topic is one thing that somebody wants to know about. Guarded by the hub.
type topic struct {
	key topicKey
	// members are to be told. Some of the holders have another topic that covers
	// this one, and are told there.
	members []*seat
	holders int
}

// seat is a subscription's place in a topic.
type seat struct {
	sub   *Subscription
	topic *topic
	// at is its index among the members, or notAMember.
	at int
}

const notAMember = -1

func (t *topic) join(s *seat, covered bool) {
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

func (t *topic) leave(s *seat) {
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
		t.members = append(make([]*seat, 0, spare/2), t.members...)
	}
	s.at = notAMember
}

// index finds topics. Guarded by the hub.
type index struct {
	topics map[topicKey]*topic
	// lengths counts the URIs by their length, so that of the many beginnings of
	// a long URI only those are looked up that can be there.
	lengths map[int]int
}

func newIndex() index {
	return index{topics: map[topicKey]*topic{}, lengths: map[int]int{}}
}

// add returns the topic of a key, and whether it is new.
func (x *index) add(key topicKey) (*topic, bool) {
	if t, ok := x.topics[key]; ok {
		return t, false
	}
	t := &topic{key: key.own()}
	x.topics[t.key] = t
	if key.kind == ResourceUpdated {
		x.lengths[len(key.name)]++
	}
	return t, true
}

// release forgets an unused topic, and reports whether it
// did.
func (x *index) release(t *topic) bool {
	if t.holders > 0 {
		return false
	}
	delete(x.topics, t.key)
	if t.key.kind == ResourceUpdated {
		if n := len(t.key.name); x.lengths[n] > 1 {
			x.lengths[n]--
		} else {
			delete(x.lengths, n)
		}
	}
	return true
}

// about appends the topics that a change belongs to.
func (x *index) about(c *Change, found []*topic) []*topic {
	switch c.Kind {
	case ResourceUpdated:
		return x.covering(c.URI, found)
	case TaskChanged:
		return x.find(topicKey{kind: TaskChanged, name: c.Task.GetTaskId(), principal: c.Principal}, found)
	default:
		return x.find(topicKey{kind: c.Kind}, found)
	}
}

func (x *index) find(key topicKey, found []*topic) []*topic {
	if t, ok := x.topics[key]; ok {
		return append(found, t)
	}
	return found
}

// covering looks for every beginning of a URI that covers it.
func (x *index) covering(uri string, found []*topic) []*topic {
	if len(x.lengths) == 0 {
		return found
	}
	for n := 1; n <= len(uri); n++ {
		if endsAt(uri, n) && x.lengths[n] > 0 {
			found = x.find(topicKey{kind: ResourceUpdated, name: uri[:n]}, found)
		}
	}
	return found
}

// names returns the names of the topics of a kind, in order and each once.
func (x *index) names(kind Kind) []string {
	var out []string
	for key := range x.topics {
		if key.kind == kind {
			out = append(out, key.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// own returns a copy that keeps nothing else alive: the name may be a part of a
// whole request.
func (k topicKey) own() topicKey {
	k.name = strings.Clone(k.name)
	return k
}
