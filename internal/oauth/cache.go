// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// verified is a token that has been verified. Immutable, but for its lease and key.
type verified struct {
	who     *access.Identity
	lease   *access.Lease
	above   *access.Identity // the entry of the callers file that claims it; nil for none
	subject access.Subject
	facts   access.Facts
	bound   binding
	key     *key // that signed it; nil for an introspected token
	// until is when the token has to be verified again, or has expired.
	until time.Time
}

// isGood holds while nothing about the token has to be verified again.
func (e *verified) isGood(now time.Time) bool {
	return now.Before(e.until) && (e.key == nil || !e.key.gone.Load())
}

// shards keep callers from waiting for each other.
const shards = 16

// cache has the tokens that were verified, by their digest. Only a good token gets in, so that
// callers without one cannot push others out.
type cache struct {
	parts [shards]part
	max   int // of a part
}

type part struct {
	mu sync.Mutex
	of map[access.Digest]*verified
}

func newCache(most int) *cache {
	c := &cache{max: max(1, most/shards)}
	for i := range c.parts {
		c.parts[i].of = map[access.Digest]*verified{}
	}
	return c
}

func (c *cache) part(d *access.Digest) *part { return &c.parts[d[0]%shards] }

func (c *cache) get(d *access.Digest) *verified {
	p := c.part(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[*d]
}

// put adds a token. A full part drops one that has expired, or else any one.
func (c *cache) put(d *access.Digest, e *verified, now time.Time) {
	p := c.part(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.of[*d]; !ok && len(p.of) >= c.max {
		p.evict(now)
	}
	p.of[*d] = e
}

// evict drops one of a few tokens, which Go picks at random.
func (p *part) evict(now time.Time) {
	const look = 8
	seen := 0
	for d, e := range p.of {
		if seen++; seen == look || !now.Before(e.until) {
			delete(p.of, d)
			return
		}
	}
	for d := range p.of {
		delete(p.of, d)
		return
	}
}

func (c *cache) drop(d *access.Digest) {
	p := c.part(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, *d)
}

func (c *cache) len() int {
	n := 0
	for i := range c.parts {
		c.parts[i].mu.Lock()
		n += len(c.parts[i].of)
		c.parts[i].mu.Unlock()
	}
	return n
}
