// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"container/list"
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// cache keeps the compiled schemas of tools by canonical name, each under the
// fingerprint that it was compiled for. One lock guards it; it is never held
// while something is compiled.
type cache struct {
	most  int
	mu    sync.Mutex
	order *list.List // of *entry, the one that was asked for last in front
	byKey map[string]*list.Element
}

// entry is one tool under one fingerprint. The first user compiles it,
// the others wait; a dropped entry stays usable for those who hold it.
type entry struct {
	name, fingerprint string
	compile           func() (compiled, error)
}

func newCache(most int) cache {
	return cache{most: most, order: list.New(), byKey: make(map[string]*list.Element)}
}

// get returns the schemas of a tool, compiled now or before.
func (c *cache) get(t *catalog.Tool) (compiled, error) {
	return c.entry(t).compile()
}

func (c *cache) entry(t *catalog.Tool) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[t.Name]; ok {
		if known := at.Value.(*entry); known.fingerprint == t.Fingerprint() {
			c.order.MoveToFront(at)
			return known
		}
		c.remove(at)
	}
	fresh := &entry{
		name: t.Name, fingerprint: t.Fingerprint(),
		compile: sync.OnceValues(func() (compiled, error) { return compileTool(t) }),
	}
	c.byKey[t.Name] = c.order.PushFront(fresh)
	for c.order.Len() > c.most {
		c.remove(c.order.Back())
	}
	return fresh
}

// drop forgets the tool of a name, if it is there.
func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[name]; ok {
		c.remove(at)
	}
}

// prune drops what tools do not have any more under the same fingerprint.
func (c *cache) prune(tools Tools) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.order.Front(); at != nil; {
		next := at.Next()
		known := at.Value.(*entry)
		if t, ok := tools.Lookup(known.name); !ok || t.Fingerprint() != known.fingerprint {
			c.remove(at)
		}
		at = next
	}
}

// remove needs the lock.
func (c *cache) remove(at *list.Element) {
	delete(c.byKey, c.order.Remove(at).(*entry).name)
}

// size is the number of tools kept.
func (c *cache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
