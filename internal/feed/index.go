// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// topicKey names what a change is about: a list, a resource, or a principal's
// task. The principal of a resource is its scope; without one, it stands for those
// below it, too.
type topicKey struct {
	kind            Kind
	name, principal string
}

type topic = hub.Topic[topicKey, item]

// index finds topics. Guarded by the hub.
type index struct {
	topics map[topicKey]*topic
	// lengths counts the URIs by their length, so that of the many beginnings of
	// a long URI only those are looked up that can be there.
	lengths map[int]int
}

func newIndex() *index {
	return &index{topics: map[topicKey]*topic{}, lengths: map[int]int{}}
}

// seatBytes is what a thing that a subscription asks for costs beside its name,
// roughly.
const seatBytes = 64

// Cost implements [hub.Index].
func (x *index) Cost(key topicKey) int { return len(key.name) + seatBytes }

// Topic implements [hub.Index].
func (x *index) Topic(key topicKey) (*topic, bool) {
	if t, ok := x.topics[key]; ok {
		return t, false
	}
	t := &topic{Key: key.own()}
	x.topics[t.Key] = t
	if key.isUnscoped() {
		x.lengths[len(key.name)]++
	}
	return t, true
}

// Release implements [hub.Index].
func (x *index) Release(t *topic) {
	delete(x.topics, t.Key)
	if !t.Key.isUnscoped() {
		return
	}
	if n := len(t.Key.name); x.lengths[n] > 1 {
		x.lengths[n]--
	} else {
		delete(x.lengths, n)
	}
}

// about appends the topics that a change belongs to.
func (x *index) about(c *Change, found []*topic) []*topic {
	switch c.Kind {
	case ResourceUpdated:
		if c.Scope != "" {
			return x.find(topicKey{kind: ResourceUpdated, name: c.URI, principal: c.Scope}, found)
		}
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

// item is what is kept of a change. It keeps nothing else alive: the URI may be
// a part of a whole message.
func (c *Change) item(found []*topic) item {
	if c.Kind != ResourceUpdated {
		return item{kind: c.Kind, name: c.Task.GetTaskId(), task: c.Task}
	}
	// The longest beginning comes last.
	if name := found[len(found)-1].Key.name; len(name) == len(c.URI) {
		return item{kind: c.Kind, name: name}
	}
	return item{kind: c.Kind, name: strings.Clone(c.URI)}
}

func (x *index) has(list Kind) bool { return x.topics[topicKey{kind: list}] != nil }

// names returns the names of the topics of a kind, in order and each once.
func (x *index) names(kind Kind) []string {
	var out []string
	for key := range x.topics {
		if key.kind == kind && (kind != ResourceUpdated || key.principal == "") {
			out = append(out, key.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isUnscoped holds for resources whose updates are for everybody.
func (k topicKey) isUnscoped() bool { return k.kind == ResourceUpdated && k.principal == "" }

// own returns a copy that keeps nothing else alive: the name may be a part of a
// whole request.
func (k topicKey) own() topicKey {
	k.name = strings.Clone(k.name)
	return k
}
