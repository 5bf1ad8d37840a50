// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"sync"
	"time"
)

// cache keeps values until a time, at most a number of them. When it is full, expired
// entries go first, then the one that would expire next.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	max     int
	entries map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

func newCache[K comparable, V any](most int) *cache[K, V] {
	return &cache[K, V]{max: most, entries: map[K]entry[V]{}}
}

// get returns the value of a key that has not expired.
func (c *cache[K, V]) get(key K, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || !now.Before(e.until) {
		var none V
		return none, false
	}
	return e.value, true
}

// put keeps a value until a time. A time that has passed keeps nothing.
func (c *cache[K, V]) put(key K, value V, until, now time.Time) {
	if !now.Before(until) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; !ok && len(c.entries) >= c.max {
		c.makeRoom(now)
	}
	c.entries[key] = entry[V]{value: value, until: until}
}

// makeRoom removes expired entries, or else the next to expire.
func (c *cache[K, V]) makeRoom(now time.Time) {
	var next K
	var soonest time.Time
	for key, e := range c.entries {
		if !now.Before(e.until) {
			delete(c.entries, key)
			continue
		}
		if soonest.IsZero() || e.until.Before(soonest) {
			next, soonest = key, e.until
		}
	}
	if len(c.entries) >= c.max {
		delete(c.entries, next)
	}
}

// len returns the number of entries, expired ones included.
func (c *cache[K, V]) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}
