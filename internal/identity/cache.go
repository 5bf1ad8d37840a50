// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"sync"
	"time"
)

// Cache keeps values until a time, at most a number of them. A full one drops an entry that has ended, or of a few that Go
// picks at random the next to end. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	max int

	mu      sync.Mutex
	entries map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

// NewCache returns an empty cache.
func NewCache[K comparable, V any](most int) *Cache[K, V] {
	return &Cache[K, V]{max: max(1, most), entries: map[K]entry[V]{}}
}

// Get returns the value of a key that has not ended.
func (c *Cache[K, V]) Get(key K, now time.Time) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok && now.Before(e.until) {
		return e.value, true
	}
	return value, false
}

// held returns the value of a key, also one that has ended.
func (c *Cache[K, V]) held(key K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[key].value
}

// Put keeps a value until a time. A time that has passed keeps nothing.
func (c *Cache[K, V]) Put(key K, value V, until, now time.Time) {
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

// makeRoom drops one entry; c.mu is held.
func (c *Cache[K, V]) makeRoom(now time.Time) {
	const look = 8
	seen, next, soonest := 0, *new(K), time.Time{}
	for key, e := range c.entries {
		if soonest.IsZero() || e.until.Before(soonest) {
			next, soonest = key, e.until
		}
		if seen++; seen == look || !now.Before(soonest) {
			break
		}
	}
	delete(c.entries, next)
}

func (c *Cache[K, V]) drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// Len returns the number of entries, those that have ended included.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// shards keep callers from waiting for each other.
const shards = 16

// cache has the tokens that were verified, by their digest. Only a good token gets in, so that
// callers without one cannot push others out.
type cache [shards]*Cache[Digest, *verified]

func newCache(most int) *cache {
	c := &cache{}
	for i := range c {
		c[i] = NewCache[Digest, *verified](most / shards)
	}
	return c
}

func (c *cache) of(d *Digest) *Cache[Digest, *verified] { return c[d[0]%shards] }

// get returns a token, also one that has to be verified again; nil for none.
func (c *cache) get(d *Digest) *verified { return c.of(d).held(*d) }

func (c *cache) put(d *Digest, e *verified, now time.Time) { c.of(d).Put(*d, e, e.until, now) }

func (c *cache) drop(d *Digest) { c.of(d).drop(*d) }

func (c *cache) len() int {
	n := 0
	for _, part := range c {
		n += part.Len()
	}
	return n
}
