// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// BucketCounts says how many buckets a limiter remembers.
func BucketCounts(l *Limiter) (callers, tools int) {
	return len(l.callers.Load().byName), len(l.tools.Load().byName)
}

// IsOwed reports whether fewer calls of the tool's or the caller's class run than have reserved slots.
func IsOwed(s *Slots, caller, tool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range []*class{classOf(tool, s.toolClasses), classOf(caller, s.callerClasses)} {
		running := 0
		if c != nil {
			for _, g := range c.groups {
				running += g.running
			}
			if running < c.reserved {
				return true
			}
		}
	}
	return false
}

// CheckReserved counts anew what Slots keep count of, and checks that the unused reserved slots are free.
func CheckReserved(s *Slots) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	reserve := 0
	for _, c := range slices.Concat(s.toolClasses, s.callerClasses) {
		charged := 0
		for _, g := range c.groups {
			charged += g.charged[g.side(c)]
			if g.loose() < 0 || c.charged < c.reserved && g.loose() > 0 && len(s.callerClasses) == 0 {
				return fmt.Errorf("class %s: %d of %d running calls are charged, %d in a group of %d", c.name, c.charged, c.reserved, g.charged, g.running)
			}
		}
		if charged != c.charged || charged > c.reserved {
			return fmt.Errorf("class %s: %d calls are charged, %d are counted, of %d", c.name, charged, c.charged, c.reserved)
		}
		reserve += c.reserved - charged
	}
	if reserve != s.reserve || s.running+reserve > s.most {
		return fmt.Errorf("%d running, %d reserved (counted %d), of %d", s.running, reserve, s.reserve, s.most)
	}
	return nil
}

// FixedSlots are Slots without the adaptive limit: the concurrency of each tool is the maximum, whatever its latency.
func FixedSlots(limits *configv1.Limits, clock ...*peer.Clock) *Slots {
	s := NewSlots(limits, SlotOptions{Clock: append(clock, nil)[0]})
	s.fixed = true
	return s
}

// LimitBuckets makes a limiter remember fewer callers, none of them yet.
func LimitBuckets(l *Limiter, callers int) {
	l.callers.Store(newBuckets(l.callers.Load().rate, callers))
}

const (
	DefaultMaxCallers = defaultMaxCallers
	DefaultMaxCounted = defaultMaxCounted
	OtherTools        = otherTools
	QueueFull         = queueFull
	QueueWait         = queueWait
)

// NewScopedGate returns a gate for the tools of a scope in the given state.
func NewScopedGate(t Trust, s Scope) *Gate { return newScopedGate(t, s) }

// SharesPlans reports whether two views plan each message type once for both.
func SharesPlans(a, b *View) bool { return a.sightline == b.sightline }

// KeptOutcomes is how many outcomes of rules a view keeps filters for.
func KeptOutcomes(v *View) int { return len(v.filters) }
