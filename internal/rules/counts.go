// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"sync"
)

// counts has the decisions of the rules in use. A rule that stays keeps its numbers.
type counts struct {
	mu    sync.Mutex
	rules map[string]*Count
}

// Count is how often a rule decided a call, and how often its evaluation failed.
type Count struct {
	Rule                    string
	Allowed, Denied, Failed uint64
}

// keep begins to count the rules of a set, and forgets all others.
func (c *counts) keep(s *Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rules := make(map[string]*Count, len(s.rules))
	for _, r := range s.rules {
		if rules[r.Name] = c.rules[r.Name]; rules[r.Name] == nil {
			rules[r.Name] = &Count{Rule: r.Name}
		}
	}
	c.rules = rules
}

func (c *counts) decided(rule string, effect Effect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.rules[rule]
	switch {
	case n == nil:
	case effect == Deny:
		n.Denied++
	default:
		n.Allowed++
	}
}

func (c *counts) failed(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.rules[rule]; n != nil {
		n.Failed++
	}
}

// Counts returns the counts of the rules in use, sorted by name.
func (e *Engine) Counts() []Count {
	c := &e.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Count, 0, len(c.rules))
	for _, n := range c.rules {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}
