// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/outrigger-mcp/outrigger/internal/glob"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Class is a set of tools or of callers that Slots treat in their own way.
type Class struct {
	// Name is the class in metrics.
	Name string
	// Match are patterns (package glob) of the names of its tools or callers.
	Match []string
	// Weight is the part of each of its tools or callers beside those of weight 1, when a slot becomes free and in shares.
	// Zero is 1.
	Weight int
	// Reserved is the number of slots that only calls of the class may use. All of its tools or callers share them.
	Reserved int
}

// class is a Class in use. charged is the number of running calls that use one of its reserved slots.
type class struct {
	Class

	charged int
	// groups are all that belong to it.
	groups []*group
}

// isOwed reports whether a reserved slot of the class is unused.
func (c *class) isOwed() bool { return c != nil && c.charged < c.Reserved }

// weight is that of each tool or caller of the class; nil is for those without a class.
func (c *class) weight() int {
	if c == nil {
		return 1
	}
	return max(c.Weight, 1)
}

// rule is the share of each tool or caller of the class.
func (c *class) rule(usual share.Rule) share.Rule { return usual.Weighted(c.weight()) }

// newClasses returns classes without calls, and the sum of their reserved slots.
func newClasses(of []Class) (classes []*class, reserved int) {
	for _, c := range of {
		classes = append(classes, &class{Class: c})
		reserved += c.Reserved
	}
	return classes, reserved
}

// classOf finds the first class that a name belongs to; nil for none.
func classOf(name string, classes []*class) *class {
	for _, c := range classes {
		if glob.MatchAny(c.Match, name) {
			return c
		}
	}
	return nil
}

// group is the calls of one class of callers to one class of tools. Its calls are interchangeable, so that counts are enough
// to know which reserved slots are used.
type group struct {
	// of are the class of the tools and that of the callers; either may be nil.
	of [2]*class
	// charged is how many of the running calls use a reserved slot of either class.
	charged          [2]int
	running, waiting int
	rejected         [reasons]uint64
}

// group returns the group of calls between two classes; nil for calls that belong to no class.
func (s *Slots) group(tools, callers *class) *group {
	if tools == nil && callers == nil {
		return nil
	}
	key := [2]*class{tools, callers}
	if g := s.groups[key]; g != nil {
		return g
	}
	g := &group{of: key}
	s.groups[key] = g
	for _, c := range key {
		if c != nil {
			c.groups = append(c.groups, g)
		}
	}
	return g
}

// isOwed reports whether the next call of the group gets a reserved slot.
func (g *group) isOwed() bool { return g != nil && (g.of[0].isOwed() || g.of[1].isOwed()) }

// loose is how many running calls use no reserved slot.
func (g *group) loose() int { return g.running - g.charged[0] - g.charged[1] }

// side is which of its two classes c is.
func (g *group) side(c *class) int {
	if g.of[0] == c {
		return 0
	}
	return 1
}

// charge has one running call of the group use a reserved slot of one of its classes.
func (s *Slots) charge(g *group, side int) {
	g.of[side].charged++
	g.charged[side]++
	s.reserve--
}

// begun notes that a call of the group runs. It uses a reserved slot if there is one: that of its tool first.
func (s *Slots) begun(g *group) {
	g.running++
	for side, c := range g.of {
		if c.isOwed() {
			s.charge(g, side)
			return
		}
	}
}

// ended notes that a call of the group has ended. A reserved slot that becomes free goes to another running call of the class
// that uses none: otherwise a class that runs more than it reserved would keep slots from the others.
func (s *Slots) ended(g *group) {
	g.running--
	if g.loose() >= 0 {
		return
	}
	side := 0
	if g.charged[side] == 0 {
		side = 1
	}
	c := g.of[side]
	c.charged--
	g.charged[side]--
	s.reserve++
	for _, other := range c.groups {
		if other.loose() > 0 {
			s.charge(other, other.side(c))
			return
		}
	}
}

// owesCallers reports whether a class of callers has an unused reserved slot.
func (s *Slots) owesCallers() bool {
	for _, c := range s.callerClasses {
		if c.isOwed() {
			return true
		}
	}
	return false
}
